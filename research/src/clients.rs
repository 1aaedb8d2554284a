//! The costs for a client of a device, in instructions: for a kick, on boards where no page makes a device look at its doorbells, and for submitting
//! launches with few and many arguments; the costs of clients without a lock for those that have it, and for their sharer; the cost of another life
//! of a task; the end of a node's job; engines with a device that decides by keys; and a datagram on its way to a client.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use fusee_abi::trace::Level;
use fusee_kernel_core::limits::LONGEST_PATH;
use fusee_manifest::Profile;

use crate::bench;
use fusee_host::build::Kernel;
use fusee_host::system::Workspace;
use fusee_host::table::Table;

/// The system that measures.
const MANIFEST: &str = "tests/bench/client.toml";
/// The system that measures the costs of clients without a lock, and its board.
const SHARING: (&str, &str) = ("tests/bench/sharing.toml", BOARDS[0]);
/// The system that measures further lives, on the same board.
const LIVES: &str = "tests/bench/lives.toml";
/// That of devices behind an SMMU, that of graphs, and that of engines with a device that decides by keys.
const STREAMS: &str = "tests/bench/streams.toml";
const GRAPHS: &str = "tests/bench/graph.toml";
const KEYS: &str = "tests/bench/keys.toml";
/// The system of a network.
const NET: &str = "tests/bench/net.toml";
/// Host seconds after which it is ended.
const SECONDS: u64 = 60;
/// Boards: one with a page that kicks, and two with different controllers that have none.
const BOARDS: [&str; 3] = ["virt", "raspi3b", "zcu102"];
/// The marks of the task that measures, by their numbers.
const PATHS: [&str; 28] = [
    "null system call",
    "kick by a call",
    "submit a launch, no arguments",
    "submit a launch, 4 words of arguments",
    "submit a launch, 16 words of arguments",
    "acquire that takes an engine back",
    "release that hands it back",
    "store to a doorbell, made by the sharer",
    "share, 1 client",
    "share, 7 clients",
    "share, 7 clients, their shadows",
    "store to a doorbell, its lock is held",
    "store to a doorbell, no lock, open",
    "share, 15 clients",
    "death of a task, up to its supervisor's next instruction",
    "restart, a server with 3 handles",
    "first call after a restart, told so",
    "let a device behind an SMMU reach memory",
    "keep it from memory",
    "release by number, with a kick",
    "release by number, again",
    "end of a node's job, 1 consumer",
    "end of a node's job, 3 consumers",
    "token -> first instruction on another CPU",
    "acquire, its device decides by keys",
    "release, its device decides by keys",
    "call and reply, with a key of an engine each",
    "datagram on the wire -> client that waits",
];
/// The first of those that the other system logs, as 0,
const OF_SHARING: usize = 5;
/// and of those that the system of lives does.
const OF_LIVES: usize = 14;
/// The first of devices behind an SMMU,
const OF_STREAMS: usize = 17;
/// and of graphs.
const OF_GRAPHS: usize = 19;
/// The limits of these.
const MOST_OF_GRAPHS: [u64; 5] = [1_500, 500, 2_000, 5_500, 2_500];
/// The first of engines with a device that decides,
const OF_KEYS: usize = 24;
/// and their limits.
const MOST_OF_KEYS: [u64; 3] = [1_500, 1_500, 4_000];
/// The first of a network, and their limit.
const OF_NET: usize = 27;
const MOST_OF_NET: u64 = 25_000;
/// The limits of clients without a lock.
const MOST: [u64; 6] = [1_500, 1_500, 4_000, 700, 1_500, 1_500];
/// A store by a task that has the lock; one by a client without it, which may take no instruction more.
const HELD: usize = 11;
const OPEN: usize = 12;
/// All clients that an engine can have, and the limit for their pages.
const MANY: (usize, u64) = (13, 2_500);
const NULL: usize = 0;
const KICK: usize = 1;
/// Instructions that a kick may take beyond a null system call: a handle is looked up, and a register of the controller written.
const BEYOND: u64 = 60;

/// The measurements on a board: by path.
pub struct Client {
    board: &'static str,
    paths: [Option<u64>; PATHS.len()],
}

impl Client {
    /// Measures on each board.
    pub fn measure(install: bool) -> Result<Vec<Self>> {
        BOARDS.into_iter().map(|board| Self::of(board, install).context(board)).collect()
    }

    fn of(board: &'static str, install: bool) -> Result<Self> {
        let workspace =
            Workspace { kernel: Kernel::Traced(Level::Marks), ..Workspace::open(install)? }.on(Some(board), install);
        let shortest = |manifest: &str| {
            let image = workspace.image(Path::new(manifest), Profile::Det, false)?;
            let samples = bench::samples(&workspace, &image, SECONDS, Vec::new())?;
            anyhow::Ok(move |row: usize| samples.get(&row).and_then(|values| values.first()).copied())
        };
        let own = shortest(MANIFEST)?;
        let of_sharing = if board == SHARING.1 { Some(shortest(SHARING.0)?) } else { None };
        let of_lives = if board == SHARING.1 { Some(shortest(LIVES)?) } else { None };
        let of_streams = if board == SHARING.1 { Some(shortest(STREAMS)?) } else { None };
        let of_graphs = if board == SHARING.1 { Some(shortest(GRAPHS)?) } else { None };
        let of_keys = if board == SHARING.1 { Some(shortest(KEYS)?) } else { None };
        let of_net = if board == SHARING.1 { Some(shortest(NET)?) } else { None };
        let paths = std::array::from_fn(|row| match row {
            OF_NET.. => of_net.as_ref().and_then(|shortest| shortest(row - OF_NET)),
            OF_KEYS.. => of_keys.as_ref().and_then(|shortest| shortest(row - OF_KEYS)),
            OF_GRAPHS.. => of_graphs.as_ref().and_then(|shortest| shortest(row - OF_GRAPHS)),
            OF_STREAMS.. => of_streams.as_ref().and_then(|shortest| shortest(row - OF_STREAMS)),
            OF_LIVES.. => of_lives.as_ref().and_then(|shortest| shortest(row - OF_LIVES)),
            OF_SHARING.. => of_sharing.as_ref().and_then(|shortest| shortest(row - OF_SHARING)),
            _ => own(row),
        });
        let is_measured = |row: usize| match row {
            KICK => board != BOARDS[0],
            OF_SHARING.. => board == SHARING.1,
            _ => true,
        };
        for (row, path) in paths.iter().enumerate().filter(|(row, _)| is_measured(*row)) {
            ensure!(path.is_some_and(|path: u64| path > 0), "{} was not measured", PATHS[row]);
        }
        Ok(Self { board, paths })
    }

    /// Name and length of each path.
    pub fn figures(&self) -> impl Iterator<Item = (String, u64)> {
        let paths = PATHS.iter().zip(self.paths);
        paths.filter_map(|(name, path)| Some((format!("{name}, {}", self.board), path?)))
    }

    /// The paths that are too long.
    pub fn problems(&self) -> impl Iterator<Item = String> {
        let kick = (KICK, self.paths[NULL].map(|null| null + BEYOND));
        let of_sharing = MOST.iter().enumerate().map(|(row, most)| (OF_SHARING + row, Some(*most)));
        let open = (OPEN, self.paths[HELD]);
        let many = (MANY.0, Some(MANY.1));
        let of_lives = (OF_LIVES..OF_GRAPHS).map(|row| (row, Some(LONGEST_PATH)));
        let of_graphs = MOST_OF_GRAPHS.iter().enumerate().map(|(row, most)| (OF_GRAPHS + row, Some(*most)));
        let of_keys = MOST_OF_KEYS.iter().enumerate().map(|(row, most)| (OF_KEYS + row, Some(*most)));
        let net = (OF_NET, Some(MOST_OF_NET));
        let all = [kick, open, many, net].into_iter().chain(of_sharing).chain(of_lives).chain(of_graphs).chain(of_keys);
        all.filter_map(|(row, most)| {
            let (path, most) = (self.paths[row]?, most?);
            let (name, board) = (PATHS[row], self.board);
            (path > most).then(|| format!("{name}, {board}: {path} instructions, which must be {most} at most"))
        })
    }
}

/// The table of all boards.
pub fn table(clients: &[Client]) -> Table {
    let header = ["clients of devices, instructions"].into_iter().chain(clients.iter().map(|client| client.board));
    let mut table = Table::new(header.collect::<Vec<_>>());
    for (row, name) in PATHS.iter().enumerate() {
        let cell = |client: &Client| client.paths[row].map_or_else(|| "-".to_owned(), |path| path.to_string());
        table.add_row([(*name).to_owned()].into_iter().chain(clients.iter().map(cell)).collect::<Vec<_>>());
    }
    table
}
