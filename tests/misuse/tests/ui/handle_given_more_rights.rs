//! A handle has the rights that the manifest or its source gave it.

use fusee_kernel_core::object::Handle;

fn handle_given_more_rights(handle: &mut Handle) {
    handle.rights = u16::MAX;
}

fn main() {}
