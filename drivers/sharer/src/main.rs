//! The sharer: shares one engine among its clients without the lock, by a policy of `fusee_sharing`.
//!
//! Handles: endpoint "requests" (receive), which the key `sharer` of the engine names; that key gives, besides, "doorbells.ENGINE", "status.ENGINE"
//! and "kick". It needs a budget of its own to look at the engine while its clients do not wait, and a stack of 32 KiB.
//!
//! | Parameter | Unit | Without it |
//! |---|---|---|
//! | `policy` | 0 accounting; 1 timeslices, each store asked about; 2 timeslices; 3 fair queueing, requests sampled; 4 the same, aware of backlogs; 5 fair queueing by the device's counters, or as 4 if it has none; [virtual GPUs](fusee_sharing::virtual_gpu): 6 in turn, 7 by credit, 8 by bandwidth | 2 |
//! | `static_weights` | 1: groups have fixed parts, which silent members keep; 0: the members that want the engine divide all ([`Shares`](fusee_sharing::Shares)) | 0 |
//! | `log_verdicts` | 1: each change of season and verdict is logged | 0 |
//! | `poll_us`, `slice_us`, `sample_us`, `sample_most_us`, `sample_poll_us`, `request_limit_us`, `period_us`, `wait_us` | microseconds | [`Parameters::DEFAULT`](fusee_sharing::Parameters::DEFAULT) |
//! | `sample_requests`, `free_run`, `backlogged` | requests; a multiple; percent | the same |
//! | `without_overuse_control` | 1: a timeslice costs no more than its length, however long the holder's last command runs on; for comparison | 0 |
//!
//! Groups of clients and their weights are told by entries `group.NAME` and `member.CLIENT` ([`fusee_sharing::told`]); policies 3 to 8 go by them, and the others
//! are refused. A region "usage" (read, write), if there is one, shows the usage of each ([`fusee::usage`]). Clients of groups and managers of groups
//! may call the endpoint ([`fusee::sharing`]).
//!
//! A command that takes longer than `request_limit_us` is accused. With a handle "sessions" (call) to the endpoint of the server of
//! [sessions](fusee::session), the sharer has it reset, with all other queued commands of its client, and the client goes on; the second time the
//! client is shut out for good, and its task is stopped if there is a handle `stop.CLIENT` (task, stop). Without "sessions" the client is shut out
//! the first time, and the command runs on until a job asks for the engine.
//!
//! A group with a handle `over.GROUP` (notification, signal) is told first, by a bit for the member, and nothing else happens. Its manager may have the command ended
//! ([`fusee::sharing::Sharer::end`]), or wait for its end. If it runs on for as long again, all clients of the group, and of those below it, are shut out for good, their
//! tasks are stopped as far as there are handles, and the command is reset.
//!
//! A client with commands that the device does not see for `request_limit_us` has stopped its own ring, and is shut out for good, as is one that is
//! seen to break the rules.
//!
//! In a loop it waits until a client stores while it may not, or until the policy wants to look; reads how far each client is; asks the policy; carries out
//! its verdicts. A wrong parameter ends the task with a message.
//!
//! # Time
//!
//! The policies count time during which the engine was this class's. The sharer is not told when jobs acquire the engine, it sees at each look the
//! context with the running command. So the time since the look before does not count if that is a command of another class. One look is wrong by up
//! to a poll; over many the errors cancel out, because they have either sign.
//!
//! # Logged marks
//!
//! | Key | Value |
//! |---|---|
//! | 1 | a member was accused: its number |
//! | 2 | a member that broke the rules, or was accused for good, has no command at the device any more: its number |
//! | 3 | with `log_verdicts`: the season. Of timeslices 1 and, from bit 8 on, the member with the slice, or 0 for none. Of fair queueing 0 barrier, 1 draining, 2 sampling and, from bit 8 on, the member, 3 free run. Of virtual GPUs 0 idle, 1 and, from bit 8 on, the member with the turn, 2 the head of the queue waits |
//! | 4 | with `log_verdicts`: a member's number in 8 bits, and from bit 8 on its permission: 0 nothing; 1 submit so many commands, in bits 16 and up; 2 store to its doorbell |
//!
//! Its decisions, and their order, are in the library beside this file, which the simulator runs, too ([`sharer::course`]).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use sharer::program;
use sharer::setup::Setup;

fusee::entry!(main);

fn main() {
    program::run(Setup::rule)
}
