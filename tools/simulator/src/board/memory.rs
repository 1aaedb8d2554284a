//! Sparse physical memory of the simulated machine.

use fusee_accel_contract as contract;
use fusee_device_model::{Bus, BusError};

/// The bytes of a page.
type Bytes = [u8; contract::PAGE_BYTES as usize];

/// Pages of a folder.
const FOLDER: usize = 256;
/// A table of pages, those of them that were touched.
type Folder = [Option<Box<Bytes>>; FOLDER];
/// Folders of a memory: 4 GiB.
const FOLDERS: usize = 4096;

/// Sparse physical memory: a table of folders, each a table of pages. Each access of the device model walks it, so it is no map.
pub struct Memory {
    folders: Vec<Option<Box<Folder>>>,
}

impl Default for Memory {
    fn default() -> Self {
        Memory { folders: vec![const { None }; FOLDERS] }
    }
}

impl Memory {
    #[inline]
    fn at(&mut self, address: u64, length: usize) -> Result<&mut [u8], BusError> {
        let page = (address / contract::PAGE_BYTES) as usize;
        let offset = (address % contract::PAGE_BYTES) as usize;
        let folder = self.folders.get_mut(page / FOLDER).ok_or(BusError)?;
        let folder = folder.get_or_insert_with(|| Box::new([const { None }; FOLDER]));
        let page = folder[page % FOLDER].get_or_insert_with(|| Box::new([0; contract::PAGE_BYTES as usize]));
        page.get_mut(offset..offset + length).ok_or(BusError)
    }
}

impl Bus for Memory {
    #[inline]
    fn read(&mut self, address: u64, buffer: &mut [u8]) -> Result<(), BusError> {
        buffer.copy_from_slice(self.at(address, buffer.len())?);
        Ok(())
    }

    #[inline]
    fn write(&mut self, address: u64, data: &[u8]) -> Result<(), BusError> {
        self.at(address, data.len())?.copy_from_slice(data);
        Ok(())
    }
}
