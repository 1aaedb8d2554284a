#![allow(missing_docs)]
//! Kinds of mistakes, each a small edit of a good manifest: all are refused, on their lines, with their reasons, before anything runs;
//! and several at a time as each alone.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use crate::common::{Segment, elf, elf_with};
use fusee_abi::program::Note;
use fusee_manifest::{Binaries, Manifest, ManifestError, ManifestErrors, PackOptions, Reason};
use proptest::prelude::*;
use proptest::sample::subsequence;

/// A system without mistakes. Lines count from its first.
const GOOD: &str = include_str!("good.toml");

/// A text and its replacement, once; and the line and the words of the mistake that this makes.
type Row = (&'static str, &'static str, usize, &'static str);

/// Texts that are no TOML, and hide the rest.
#[rustfmt::skip]
const PARSED: &[Row] = &[
    ("[tasks.far]", "[tasks.client]", 29, "duplicate key `client`; the first is in line 13"),
    ("cpus = 2", "cpus = 2 2", 4, "string values must be quoted, expected literal string"),
    ("[system]", "[sistem]", 1, "unknown key `sistem`; did you mean `system`?"),
    ("budget = \"2ms\"", "budget = \"2ms\"\nbudget = \"3ms\"", 18, "duplicate key `budget`; the first is in line 17"),
];

/// Keys and values that the schema does not know.
#[rustfmt::skip]
const WRITTEN: &[Row] = &[
    ("cpus = 2", "cpus = \"two\"", 4, "invalid type: string \"two\", expected a whole number"),
    ("period = \"10ms\"", "perod = \"10ms\"", 16, "unknown key `perod`; did you mean `period`?"),
    ("admission", "fast", 5, "unknown key `fast`; there are `name`, `board`, `cpus`, `start`, `end`, `policy`, `managed`, `trace`, `admission`, `panic`, `speaks` and `distance`"),
    ("[endpoints.service]", "[endpoint.service]", 37, "unknown key `endpoint`; did you mean `endpoints`?"),
    ("line = 72", "lin = 72", 44, "unknown key `lin`; did you mean `line`?"),
    ("\"10ms\"", "\"1.5ms\"", 16, "`1.5ms` is not a whole number: write \"1500us\""),
    ("\"10ms\"", "\"10 fortnights\"", 16, "invalid value: string \"10 fortnights\", expected a time with its unit, such as \"10ms\" (ns, us, ms, s)"),
    ("\"10ms\"", "10", 16, "invalid type: integer `10`, expected a time with its unit, such as \"10ms\" (ns, us, ms, s)"),
    ("\"8KiB\"", "\"8kb\"", 49, "invalid value: string \"8kb\", expected a length, such as \"16KiB\" (B, KiB, MiB, GiB)"),
    ("\"8KiB\"", "\"1.5MiB\"", 49, "`1.5MiB` is not a whole number: write \"1536KiB\""),
    ("admission = \"refuse\"", "admission = \"reject\"", 5, "unknown value `reject`; there are `refuse` and `warn`"),
    ("admission = \"refuse\"", "trace = \"all\"", 5, "unknown value `all`; there are `off`, `marks`, `schedule` and `full`"),
    ("period = \"10ms\"", "class = \"realtime\"", 16, "unknown value `realtime`; did you mean `real-time`?"),
    ("notification = \"event\"\n", "", 43, "key `notification` is missing in this table"),
    ("period = \"10ms\"", "period = \"10ms\"\nrestart = \"sometimes\"", 17, "`restart` is \"always\", \"never\", or a table with `at_most` and `within`"),
    ("device = true", "device = 1", 54, "a device is `true`, or the name of one of the board"),
    ("cpus = [1]", "cpus = [\"one\"]", 11, "invalid type: string \"one\", expected a whole number"),
    ("[endpoints.service]", "[pools.p]\nreplicas = 1\nlimit = \"none\"\ncluster = \"left\"\n\n[endpoints.service]", 39, "a limit is a number, \"r2dglp\", \"unlimited\" or \"ck-omlp\""),
];

/// Values without a meaning, each in an object of its own or, in one object, in a part of its own.
#[rustfmt::skip]
const APART: &[Row] = &[
    ("name = \"good\"", "name = \"../good\"", 2, "`../good` is no name; names have letters, digits, `-` and `_`, in parts with a point between them"),
    ("\"virt\"", "\"toaster\"", 3, "no board is called `toaster`; there are `virt`, `virt-gicv2`, `zcu102`, `raspi3b`, `raspi4b` and `versal`"),
    ("server = \"server\"", "server = \"waiter\"", 38, "no task is called `waiter`; there are `client`, `server` and `far`"),
    ("bound = \"far\"", "bound = \"near\"", 41, "no task is called `near`; did you mean `far`?"),
    ("interrupt = \"line\"", "interrupt = \"x\"", 64, "no interrupt is called `x`; there is `line`"),
    ("faults = [\"far\"]", "faults = [\"away\"]", 70, "no task is called `away`; there are `client`, `server` and `far`"),
    ("client: 1 2", "nobody: 1 2", 69, "`nobody: 1 2` is not a mark: write \"task: number number\""),
    ("parameters.size", "parameters.line", 27, "the environment of task `server` already has an entry `line`"),
    ("cpus = [1]", "cpus = [2]", 11, "there is no CPU 2: the system has 2"),
    ("period = \"10ms\"", "period = \"0ms\"", 16, "period of `client` is zero"),
    ("deadline = \"15ms\"", "deadline = \"4ms\"", 33, "budget of `far` (5 ms) exceeds its deadline (4 ms)"),
    ("0x0900_0000", "0x0900_0004", 52, "physical address of `uart` is not a whole number of 4 KiB pages"),
    ("\"8KiB\"", "\"100B\"", 49, "length of `shared` is not a whole number of 4 KiB pages"),
    ("\"1MiB\"", "100", 59, "memory of `gpu` is not a whole number of 4 KiB pages"),
    ("line = 72", "line = 0", 44, "line of `line` is zero"),
    ("endpoint service: call", "endpoint service: invoke", 18, "there is no right `invoke` to a handle of kind endpoint; there are `call`, `send`, `receive`, `grant` and `inside`"),
    ("burn 1ms", "dance", 30, "step `dance`: no such step"),
];

/// Values without a meaning, of all kinds.
#[rustfmt::skip]
const MEANT: &[Row] = &[
    ("[regions.shared]", "[board.devices.own]\nkind = \"other\"\nat = 0x0a00_1000\nbytes = \"4KiB\"\nqemu = { arguments = [\"device\"] }\n[regions.shared]", 52, "QEMU's arguments of `own` are options that begin with `-`, each with its value behind it: \"-device\", \"virtio-rng-device\""),
    ("cpus = [1]\n", "cpus = [1]\npolicy = \"RM\"\n[tasks.source]\nscript = [\"burn 1ms\"]\ncluster = \"right\"\nperiod = \"10ms\"\nbudget = \"1ms\"\n[tasks.sink]\nscript = [\"burn 1ms\"]\ncluster = \"right\"\nbudget = \"1ms\"\nearly = true\n[graphs.g]\nsource = \"source\"\n[graphs.g.edges]\ne = { from = \"source\", to = \"sink\" }\n", 22, "`sink` may not begin early: keys of cluster `right` do not follow releases under RM; leave `early` out, or give the cluster the policy EDF or FL"),
    ("cpus = [1]\n", "cpus = [1]\n[tasks.source]\nscript = [\"burn 1ms\"]\ncluster = \"right\"\nperiod = \"10ms\"\nbudget = \"1ms\"\n[tasks.sink]\nscript = [\"burn 1ms\"]\ncluster = \"right\"\nbudget = \"1ms\"\nearly_release = true\nearly = true\n[graphs.g]\nsource = \"source\"\n[graphs.g.edges]\ne = { from = \"source\", to = \"sink\" }\n", 22, "`sink` may not begin early, because the analysis counts its jobs by its period: it may take the budget of its next job"),
    ("handles.ee = \"engine ee: acquire\"", "handles.ee = \"engine ee: acquire\"\nuses.ee = { operation = { kernel = \"k\", blocks = 2 } }", 21, "nothing was measured of kernel `k` (`cargo xtask run --measure` does, and writes it to the file that `times` of the device names); there is none"),
    ("memory = \"1MiB\"", "memory = \"1MiB\"\ntimes = \"gone.times\"", 60, "`gone.times`: No such file or directory (os error 2); `cargo xtask run --measure` writes this file"),
    ("memory = \"1MiB\"", "memory = \"1MiB\"\ntimes = \"up/gone.times\"", 60, "`up/gone.times` is not the name of a file beside this one"),
    ("cluster = \"right\"", "cluster = \"up\"", 31, "no cluster is called `up`; there are `left` and `right`"),
    ("notification = \"event\"", "notification = \"e\"", 45, "no notification is called `e`; there is `event`"),
    ("driver = \"server\"", "driver = \"d\"", 57, "no task is called `d`; there are `client`, `server` and `far`"),
    ("device = \"gpu\"", "device = \"npu\"", 62, "no device is called `npu`; did you mean `gpu`?"),
    ("parameters.size", "parameters.kick", 22, "the environment of task `server` already has an entry `kick`"),
    ("[tasks.far]", "[tasks.far]\nlike = \"far\"", 30, "task `far` is like itself: at the end of each chain of `like` is a task without that key"),
    ("[tasks.far]", "[tasks.far]\ncopies = 0", 30, "number of copies of `far` is zero"),
    ("endpoint service: call", "endpoint service: receive", 18, "task `client` may not receive from endpoint `service`: its server is `server`"),
    ("endpoint service: call", "region shared: read", 19, "task `client` has region `shared` twice"),
    ("cpus = [1]", "cpus = [0, 1]", 11, "CPU 0 is in two clusters, `left` and `right`"),
    ("cpus = 2", "cpus = 3", 4, "CPU 2 is in no cluster"),
    ("cpus = 2", "cpus = 0", 4, "number of CPUs of `good` is zero"),
    ("cpus = 2", "cpus = 9", 4, "more than 8 CPUs"),
    ("cpus = [1]", "cpus = []", 10, "number of CPUs of `right` is zero"),
    ("cpus = [1]", "cpus = [1]\npolicy = \"LLF\"", 12, "no policy is called `LLF`; there are `EDF`, `FL`, `RM`, `DM` and `FP`"),
    ("cpus = [1]", "cpus = [1]\npolicy = \"FP\"", 30, "policy of `far` needs a priority"),
    ("cluster = \"right\"\n", "", 29, "`far` must name its cluster: there are several"),
    ("cluster = \"left\"\n\n[regions", "cpu = 2\n\n[regions", 46, "there is no CPU 2: the system has 2"),
    ("cluster = \"left\"\n\n[regions", "cluster = \"left\"\ncpu = 0\n\n[regions", 47, "CPU of `line` means nothing together with a cluster"),
    ("budget = \"2ms\"", "budget = \"0us\"", 17, "budget of `client` is zero"),
    ("budget = \"2ms\"", "budget = \"39us\"", 17, "budget of `client` (39 us) is too small to be enforced: at least 40 us, four times the longest path through the kernel"),
    ("deadline = \"15ms\"", "deadline = \"0s\"", 34, "deadline of `far` is zero"),
    ("budget = \"2ms\"", "budget = \"11ms\"", 17, "budget of `client` (11 ms) exceeds its period (10 ms)"),
    ("period = \"10ms\"\n", "", 13, "budget of `client` needs a period"),
    ("budget = \"2ms\"\n", "", 13, "period of `client` needs a budget"),
    ("period = \"10ms\"\nbudget = \"2ms\"", "class = \"real-time\"", 13, "class of `client` needs a period"),
    ("period = \"10ms\"\nbudget = \"2ms\"", "class = \"service\"", 13, "class of `client` needs a period"),
    ("period = \"10ms\"\nbudget = \"2ms\"", "phase = \"1ms\"", 16, "phase of `client` means nothing together with no period"),
    ("period = \"10ms\"\nbudget = \"2ms\"", "budget_covers = \"cpu+engines\"", 16, "budget_covers of `client` means nothing together with no period"),
    ("budget = \"5ms\"", "budget = \"5ms\"\nclass = \"service\"", 35, "deadline of `far` means nothing together with a class other than real-time"),
    ("binary = \"apps/client\"\n", "", 13, "task `client` needs one of `binary`, `elf` and `script`"),
    ("script = ", "binary = \"a/b\"\nscript = ", 29, "task `far` needs one of `binary`, `elf` and `script`"),
    ("bytes = \"4KiB\"\ndevice", "device", 51, "key `bytes` is missing in this table"),
    ("physical = 0x0900_0000\nbytes = \"4KiB\"\ndevice = true", "trace = true\nbytes = \"4KiB\"", 53, "trace of `uart` means nothing together with bytes"),
    ("bytes = \"8KiB\"", "trace = true", 19, "trace of `shared` means nothing together with a right other than `read`"),
    ("bytes = \"4KiB\"\ndevice = true", "trace = true", 52, "trace of `uart` means nothing together with physical"),
    ("physical = 0x0900_0000\nbytes = \"4KiB\"\ndevice = true", "trace = true\ndevice = true", 53, "trace of `uart` means nothing together with device"),
    ("physical = 0x0900_0000\nbytes = \"4KiB\"\ndevice = true", "device = \"uart7\"", 52, "no device of the board is called `uart7`; did you mean `uart0`?"),
    ("physical = 0x0900_0000\nbytes = \"4KiB\"\ndevice = true", "bytes = \"4KiB\"\ndevice = \"uart0\"", 52, "device of `uart` means nothing together with bytes"),
    ("line = 72", "line = \"uart7\"", 44, "no device of the board is called `uart7`; did you mean `uart0`?"),
    ("physical = 0x0900_0000\nbytes = \"4KiB\"\ndevice = true", "device = \"rpu0\"", 52, "board `virt` has no device `rpu0`"),
    ("physical = 0x0900_0000\n", "", 51, "device of `uart` needs a physical address"),
    ("\"8KiB\"", "0", 49, "length of `shared` is not a whole number of 4 KiB pages"),
    ("\"8KiB\"", "\"65MiB\"", 49, "`shared` needs 65 MiB, but only 64 MiB are left in the board's pool"),
    ("bytes = \"4KiB\"\ndevice", "bytes = \"1GiB\"\ndevice", 52, "region `uart` overlaps the board's RAM, which is given out by the packer"),
    ("0x0900_0000\nbytes = \"4KiB\"", "0x1_0000_0000\nbytes = \"2GiB\"", 51, "no virtual addresses are left for `uart`"),
    ("line = 72", "bits = 0\nline = 72", 44, "set of bits of `line` is zero"),
    ("[engines.mutex]", "[engines.mutex]\ndevice = \"gpu\"\nindex = 0\ninterrupt = \"line\"", 68, "index of `mutex` is already taken by `ee`"),
    ("index = 0", "index = 3", 63, "device `gpu` has only 3 engines"),
    ("\"1MiB\"", "\"1MiB\"\ncopy_engines = 3", 60, "copy_engines of `gpu` is not from 0 to 2"),
    ("\"1MiB\"", "\"1MiB\"\ncopy_engines = 0", 59, "memory of `gpu` means nothing together with `copy_engines = 0`"),
    ("memory = \"1MiB\"", "copy_engines = 1", 56, "device of `gpu` needs memory"),
    ("[engines.mutex]", "[engines.mutex]\nindex = 1", 67, "index of `mutex` needs a device"),
    ("[engines.mutex]", "[engines.mutex]\ndevice = \"gpu\"", 67, "device of `mutex` needs an index"),
    ("handles.event = \"notification event: signal wait\"", "handles.ee = \"engine ee: acquire\"\nhandles.event = \"notification event: signal wait\"", 35, "engine `ee` is used from two clusters, by `client` and `far`: that takes a `pool` with `limit = \"ck-omlp\"`"),
    ("interrupt = \"line\"\n", "", 62, "device of `ee` needs an interrupt"),
    ("line = 72", "line = 27", 56, "device of `gpu` needs an engine with an interrupt above 31"),
    ("[engines.mutex]", "[engines.mutex]\nwatchdog = \"1ms\"", 67, "watchdog of `mutex` needs a device"),
    ("parameters.size = 7", "suspends = \"1ms\"", 27, "suspends of `server` means nothing together with no period"),
    ("handles.server", "handles.a_name_that_is_longer_than_it_may_be", 18, "`a_name_that_is_longer_than_it_may_be` is longer than 24 bytes"),
    ("cpus = [1]", "cpus = [1]\npolicy = \"edf\"", 12, "no policy is called `edf`; did you mean `EDF`?"),
    ("cluster = \"left\"\nperiod", "cluster = \"lef\"\nperiod", 15, "no cluster is called `lef`; did you mean `left`?"),
    ("endpoint service: call", "endpoint service", 18, "`endpoint service` is not a handle: write \"kind name: rights\", where the kind is `endpoint`, `notification`, `engine`, `pool`, `interrupt`, `region`, `task` or `system`"),
    ("endpoint service: call", "pipe service: call", 18, "`pipe service: call` is not a handle: write \"kind name: rights\", where the kind is `endpoint`, `notification`, `engine`, `pool`, `interrupt`, `region`, `task` or `system`"),
    ("endpoint service: call", "endpoint service:", 18, "`endpoint service:` is not a handle: write \"kind name: rights\", where the kind is `endpoint`, `notification`, `engine`, `pool`, `interrupt`, `region`, `task` or `system`"),
    ("endpoint service: call", "region shared: read, write", 18, "there is no right `read,` to a handle of kind region; did you mean `read`? Rights are separated by spaces"),
    ("endpoint service: call", "task far: release", 18, "there is no right `release` to a handle of kind task; there are `release_job`, `credit`, `stop`, `start` and `grant`"),
    ("endpoint service: call", "system: halt", 18, "there is no right `halt` to a handle of kind system; there is `shutdown`"),
    ("endpoint service: call", "pool gpu: acquire", 18, "no pool is called `gpu`; there is none"),
    ("endpoint service: call", "notification evnt: signal", 18, "no notification is called `evnt`; did you mean `event`?"),
    ("endpoint service: receive", "endpoint service: grant", 38, "`server` is the server of endpoint `service`, and has no handle to receive from it: give it \"endpoint service: receive\""),
    ("notification event: signal wait", "notification event: signal", 40, "notification `event` is signalled, and no task may wait for it: give one \"notification event: wait\""),
    ("apps/server", "gpu-driver/gpu-driver", 57, "driver `server` of `gpu` needs a handle `event`: \"notification NAME: wait\", not bound to the driver"),
    ("burn 1ms", "burn hot", 30, "step `burn hot`: `hot` is not a time"),
    ("burn 1ms", "wait nothing", 30, "step `wait nothing`: the task has no handle `nothing`"),
    ("burn 1ms", "acquire event", 30, "step `acquire event`: handle `event` is of another kind"),
    ("event: signal wait", "event: wait", 30, "step `signal event 1`: handle `event` lacks the right `signal`"),
    ("period = \"10ms\"", "period = \"99999999s\"", 16, "period of `client` (99999999 s) is longer than any time may be, 2^56 ns (834 days)"),
    ("period = \"10ms\"", "period = \"10ms\"\nphase = \"99999999s\"", 17, "phase of `client` (99999999 s) is longer than any time may be, 2^56 ns (834 days)"),
    ("budget = \"2ms\"", "budget = \"2ms\"\nwcet = \"3ms\"", 18, "wcet of `client` (3 ms) exceeds its budget (2 ms)"),
    ("budget = \"2ms\"", "budget = \"2ms\"\nbacklog = 0", 18, "backlog of `client` is not from 1 to 255"),
    ("budget = \"2ms\"", "budget = \"2ms\"\npriority = 0", 18, "priority of `client` is zero"),
    ("budget = \"2ms\"", "budget = \"2ms\"\nstack = \"5000B\"", 18, "stack of `client` is not a whole number of 4 KiB pages"),
    ("budget = \"2ms\"", "budget = \"2ms\"\nstack = \"1GiB\"", 18, "no virtual addresses are left for `stack of client`"),
    ("handles.ee = \"engine ee: acquire\"", "handles.ee = \"engine ee: acquire share\"", 20, "right `share` of `ee` means nothing together with `acquire`"),
    ("[endpoints.service]", "[tasks.t]\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nclass = \"background\"\nhandles.ee = \"engine mutex: share\"\n\n[endpoints.service]", 41, "right `share` of `ee` needs an engine of a device"),
    ("[endpoints.service]", "[tasks.t]\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nclass = \"background\"\nhandles.ee = \"engine ee: share\"\n\n[endpoints.service]", 67, "right `share` of `ee` needs `shared_longest`"),
    ("[engines.ee]", "[tasks.t]\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nclass = \"background\"\nhandles.ee = \"engine ee: share\"\nhandles.e = \"endpoint e: receive\"\n\n[endpoints.e]\nserver = \"t\"\n\n[engines.ee]\nshared_longest = \"1ms\"\nsharer = \"e\"", 73, "serving a sharer's endpoint of `t` means nothing together with the right `share` to the engine that it decides on"),
    ("[engines.ee]", "[tasks.t]\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nhard = true\nperiod = \"10ms\"\nbudget = \"100us\"\nhandles.ee = \"engine ee: share\"\n\n[engines.ee]\nshared_longest = \"1ms\"\nsharer = \"service\"", 71, "the right `share` to an engine with a sharer of `t` means nothing together with `hard`: nothing bounds how long it waits"),
    ("period = \"10ms\"", "period = \"10ms\"\nrestart = \"always\"", 17, "restart of `client` needs a supervisor: `[supervisor]` with its `task`"),
    ("[tasks.far]", "[supervisor]\ntask = \"clien\"\n\n[tasks.far]\nrestart = \"always\"", 30, "no task is called `clien`; did you mean `client`?"),
    ("[tasks.far]", "[supervisor]\ntask = \"client\"\n\n[tasks.far]", 30, "supervisor of `client` needs a task with the key `restart`"),
    ("[tasks.far]", "[supervisor]\ntask = \"far\"\n\n[tasks.far]\nrestart = \"always\"", 33, "restart of `far` means nothing together with being the supervisor: nobody is left to do it"),
    ("[tasks.far]", "[supervisor]\ntask = \"client\"\n\n[tasks.far]\nrestart = { at_most = 0, within = \"1s\" }", 33, "at_most of `far` is not from 1 to 32"),
    ("[tasks.far]", "[supervisor]\ntask = \"client\"\n\n[tasks.far]\nrestart = { at_most = 1 }", 33, "at_most of `far` needs `within`: in how long"),
    ("[tasks.far]", "[supervisor]\ntask = \"client\"\n\n[tasks.far]\nrestart = { within = \"1s\" }", 33, "within of `far` needs `at_most`: how many lives"),
    ("[tasks.far]", "[supervisor]\ntask = \"client\"\n\n[tasks.far]\nrestart = { delay = \"0ns\" }", 33, "delay of `far` is zero"),
    ("[tasks.far]", "[supervisor]\ntask = \"client\"\n\n[tasks.far]\nrestart = { delay = \"2ms\", longest_delay = \"1ms\" }", 33, "longest_delay of `far` needs to be `delay` at least"),
    ("[engines.ee]", "[engines.ee]\nsharer = \"service\"", 62, "sharer of `ee` needs a task with the right `share`"),
    ("[engines.ee]", "[engines.ee]\nsharer = \"servic\"", 62, "no endpoint is called `servic`; did you mean `service`?"),
    ("memory = \"1MiB\"", "memory = \"1MiB\"\nsessions = { endpoint = \"servic\" }", 60, "no endpoint is called `servic`; did you mean `service`?"),
    ("memory = \"1MiB\"", "memory = \"1MiB\"\nsessions = { endpoint = \"service\", contexts = 0 }", 60, "contexts of `gpu` is not from 1 to 7"),
    ("memory = \"1MiB\"", "memory = \"1MiB\"\nsessions = { endpoint = \"service\", contexts = 2, each = 3 }", 60, "each of `gpu` is not from 1 to 2"),
    ("memory = \"1MiB\"", "memory = \"1MiB\"\nsessions = { endpoint = \"service\" }", 60, "serving `sessions` of a device of `server` means nothing together with driving it: bottom halves would wait for requests"),
    ("memory = \"1MiB\"", "memory = \"1MiB\"\nsessions = { endpoint = \"e\" }\n\n[tasks.t]\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nclass = \"background\"\nhandles.e = \"endpoint e: receive\"\n\n[endpoints.e]\nserver = \"t\"", 60, "sessions of `gpu` needs a task that may call this endpoint, with the right `share` or as a sharer"),
    ("memory = \"1MiB\"", "memory = \"1MiB\"\nsessions = { endpoint = \"e\" }\n\n[tasks.t]\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nclass = \"background\"\nhandles.e = \"endpoint e: receive\"\nhandles.ee = \"engine ee: acquire\"\n\n[endpoints.e]\nserver = \"t\"", 60, "serving `sessions` of a device of `t` means nothing together with a right to an engine of the same device"),
    ("[engines.ee]", "[engines.ee]\nshared_longest = \"1ms\"", 62, "shared_longest of `ee` needs a task with the right `share`"),
    ("handles.ee = \"engine ee: acquire\"", "handles.ee = \"engine ee: acquire\"\nuses.ee = { operation = \"1ms\", operations = \"2ms\" }", 21, "operations of `client` together are not from one to `times` of the longest: 1 ms to 1 ms"),
    ("handles.ee = \"engine ee: acquire\"", "handles.ee = \"engine ee: acquire\"\nuses.ee = {}", 21, "longest use of `client` is zero"),
    ("handles.ee = \"engine ee: acquire\"", "handles.ee = \"engine ee: acquire\"\nuses.gpu = { cpu = \"1ms\" }", 21, "task `client` has no handle `gpu` to an engine, a pool, an endpoint or a notification"),
    ("server = \"server\"", "server = \"server\"\nservice_max = \"2ms\"\nservice_period = \"1ms\"", 40, "service_period of `service` (1 ms) is shorter than its service_max (2 ms)"),
    ("index = 0", "index = 0\nwatchdog = \"0ns\"", 64, "watchdog of `ee` is zero"),
    ("[endpoints.service]", "[tasks.t]\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nclass = \"background\"\nhandles.ee = \"engine ee: acquire\"\nuses.ee = { cpu = \"2s\" }\n[engines.other]\ndevice = \"gpu\"\nindex = 1\ninterrupt = \"line\"\nwatchdog = \"1ms\"\n[tasks.u]\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nclass = \"background\"\nhandles.o = \"engine other: acquire\"\nuses.o = { cpu = \"2ms\" }\n\n[endpoints.service]", 47, "watchdog of `other` (1 ms) is shorter than `u` may hold it (2 ms)"),
    ("[endpoints.service]", "[pools.p]\nreplicas = 1\ncluster = \"left\"\nshortest = \"lengths\"\n[tasks.t]\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nclass = \"background\"\nhandles.p = \"pool p: acquire\"\n\n[endpoints.service]", 41, "`t` does not say in its `uses` how long it has a token of `p`, which goes by that"),
    ("[endpoints.service]", "[tasks.many]\ncopies = 33\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nclass = \"background\"\nhandles.m = \"engine mutex: acquire\"\n\n[endpoints.service]", 42, "engine `mutex` has more than 32 users"),
    ("[endpoints.service]", "[tasks.many]\ncopies = 7\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nclass = \"background\"\nhandles.ee = \"engine ee: acquire\"\n\n[endpoints.service]", 42, "device `gpu` has only 7 contexts for clients"),
    ("[tasks.far]", "[tasks.far1]\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nclass = \"background\"\n[tasks.far]\ncopies = 2", 33, "a second task is called `far1`"),
    ("[endpoints.service]", "[pools.p]\nreplicas = 1\ncluster = \"right\"\n[tasks.t]\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nclass = \"background\"\nhandles.p = \"pool p: acquire\"\n\n[endpoints.service]", 44, "pool `p` is for tasks of cluster `right`, and `t` is of another: that takes `limit = \"ck-omlp\"`"),
    ("[endpoints.service]", "[pools.p]\nreplicas = 1\ncluster = \"right\"\nlimit = \"ck-omlp\"\n\n[endpoints.service]", 39, "pool `p` is shared by clusters, and is of none"),
    ("[endpoints.service]", "[pools.p]\nreplicas = 13\ncluster = \"left\"\n\n[endpoints.service]", 38, "replicas of `p` is not from 1 to 12"),
    ("[endpoints.service]", "[pools.p]\nreplicas = 1\ncluster = \"left\"\n[engines.e]\npool = \"p\"\n[tasks.t]\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nclass = \"background\"\nhandles.e = \"engine e: acquire\"\n\n[endpoints.service]", 42, "engine `e` takes a token of pool `p`, which `t` does not use"),
    ("[endpoints.service]", "[pools.p]\nreplicas = 1\ncluster = \"left\"\n[tasks.t]\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nclass = \"background\"\nhandles.p = \"pool p: acquire\"\nhandles.q = \"pool p: acquire\"\n\n[endpoints.service]", 45, "task `t` already has pool `p`"),
    ("[endpoints.service]", "[engines.e]\n[tasks.t]\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nclass = \"background\"\nhandles.p = \"engine e: acquire\"\nhandles.q = \"engine e: inside\"\n\n[endpoints.service]", 43, "task `t` already has engine `e`"),
    ("[endpoints.service]", "[pools.p]\nreplicas = 1\ncluster = \"left\"\n[tasks.t]\nbinary = \"a/b\"\ncluster = \"left\"\nhandles.p = \"pool p: acquire\"\n\n[endpoints.service]", 43, "pool of `t` needs a budget, or the class background"),
    ("[endpoints.service]", "[engines.a]\ngroup = \"g\"\n[engines.b]\ngroup = \"g\"\norder = \"fifo\"\n\n[endpoints.service]", 40, "the engines of group `g` must have the same `order`"),
    ("[engines.mutex]", "[interrupts.other]\nline = 73\nnotification = \"event\"\ncluster = \"left\"\n[engines.ce]\ndevice = \"gpu\"\nindex = 1\ninterrupt = \"other\"\n[engines.mutex]", 73, "device `gpu` raises one line; another of its engines names another interrupt"),
    ("[engines.mutex]", "[devices.dsp]\ndriver = \"d\"\nfirmware = \"other\"\nmemory = \"4KiB\"\n[interrupts.dsp]\nline = 73\nnotification = \"event\"\ncluster = \"left\"\n[engines.dsp]\ndevice = \"dsp\"\nindex = 0\ninterrupt = \"dsp\"\n[tasks.d]\nbinary = \"a/b\"\ncluster = \"left\"\nhandles.dsp = \"interrupt dsp: acknowledge\"\n[engines.mutex]", 68, "`gpu` and `dsp` need the same firmware: one CPU plays all devices"),
    ("[engines.mutex]", "[devices.dsp]\ndriver = \"server\"\nfirmware = \"engine-core\"\nmemory = \"4KiB\"\n[interrupts.dsp]\nline = 73\nnotification = \"event\"\ncluster = \"left\"\n[engines.dsp]\ndevice = \"dsp\"\nindex = 0\ninterrupt = \"dsp\"\n[engines.mutex]", 67, "driver of `dsp` is already taken by `gpu`"),
    ("[engines.mutex]", "[devices.dsp]\ndriver = \"d\"\nfirmware = \"engine-core\"\nmemory = \"4KiB\"\n[interrupts.dsp]\nline = 73\nnotification = \"event\"\ncluster = \"left\"\n[engines.dsp]\ndevice = \"dsp\"\nindex = 0\ninterrupt = \"dsp\"\n[tasks.d]\nbinary = \"a/b\"\ncluster = \"left\"\nhandles.dsp = \"interrupt dsp: acknowledge\"\n[tasks.both]\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nclass = \"background\"\nhandles = { ee = \"engine ee: acquire\", dsp = \"engine dsp: acquire\" }\n[engines.mutex]", 86, "task `both` is scripted, and uses two devices, `gpu` and `dsp`"),
    ("cpus = 2", "cpus = 2\ndistance = [[100, 100]]", 5, "distance needs a number for each pair of devices, 1 rows of 1"),
    ("cpus = 2", "cpus = 2\ndistance = [[99]]", 5, "a distance is a percentage from 100, which is near, to 100000"),
    ("0x0900_0000", "0x4100_0000", 52, "region `uart` overlaps the board's RAM, which is given out by the packer"),
    ("0x0900_0000", "0x0800_0000", 52, "region `uart` would give away the interrupt distributor, which is the kernel's alone: a task with it could do anything"),
    ("[endpoints.service]", "[regions.big]\nbytes = \"16MiB\"\n[tasks.t]\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nclass = \"background\"\nhandles.big = \"region big: read lent\"\n\n[endpoints.service]", 43, "`big` is a place for 16 MiB that others lend; at most 8 MiB can be lent"),
    ("region shared: read write", "region shared: write lend", 19, "lend of `shared` needs the right to read"),
    ("faults = [\"far\"]", "clusters = [\"two\"]", 70, "`two` is no list of cluster sizes: write \"2,1\""),
    ("faults = [\"far\"]", "exits = [\"far\"]", 70, "`far` is not the end of a task: write \"task: code\""),
    ("faults = [\"far\"]", "turns = \"1500ns\"", 70, "turns of emulated CPUs are whole microseconds, from 1 us to 1 ms, not 1500 ns"),
    ("faults = [\"far\"]", "policies = [\"edf\"]", 70, "no policy is called `edf`; did you mean `EDF`?"),
    ("endpoint service: call", "endpoint nothing: call", 18, "no endpoint is called `nothing`; there is `service`"),
    ("endpoint service: call", "engine nothing: acquire", 18, "no engine is called `nothing`; there are `ee` and `mutex`"),
    ("endpoint service: call", "interrupt nothing: acknowledge", 18, "no interrupt is called `nothing`; there is `line`"),
    ("endpoint service: call", "region nothing: read", 18, "no region is called `nothing`; there are `shared` and `uart`"),
    ("endpoint service: call", "task nothing: stop", 18, "no task is called `nothing`; there are `client`, `server` and `far`"),
];

/// Declarations that are well written and do not fit.
#[rustfmt::skip]
const ADMITTED: &[Row] = &[
    ("[endpoints.service]", "[tasks.slow]\nscript = [\"burn 1ms\"]\ncluster = \"right\"\nperiod = \"10ms\"\ndeadline = \"35ms\"\nbudget = \"2100us\"\nhard = true\n[tasks.long]\nscript = [\"burn 1ms\"]\ncluster = \"right\"\nperiod = \"100ms\"\ndeadline = \"27ms\"\nbudget = \"22500us\"\n\n[endpoints.service]", 43, "task `slow` is hard, but not proved: up to 3 of its releases may queue, and with `backlog` = 1 the others are dropped"),
    ("[endpoints.service]", "[tasks.twin]\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nperiod = \"10ms\"\nbudget = \"9ms\"\n\n[endpoints.service]", 7, "the real-time tasks of cluster `left` need 110.0% of 1 CPU"),
    ("[endpoints.service]", "[tasks.twin]\ncopies = 2\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nperiod = \"10ms\"\nbudget = \"4ms\"\ndeadline = \"5ms\"\nhard = true\n\n[endpoints.service]", 44, "task `twin1` is hard, but not proved: some run misses its deadline (3.000 ms late, mostly others, first twin2)"),
    ("[endpoints.service]", "[tasks.brake]\nscript = [\"call s 1ms\"]\ncluster = \"left\"\nperiod = \"20ms\"\nbudget = \"1ms\"\nhard = true\nhandles.s = \"endpoint service: call\"\n\n[endpoints.service]", 42, "task `brake` is hard, but not proved: not all that it waits for is counted: it calls `service`, and endpoint `service` has no `service_max`"),
    ("[endpoints.service]", "[tasks.first]\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nperiod = \"10ms\"\nbudget = \"3ms\"\nwcet = \"1ms\"\nhard = true\nhandles.m = \"engine mutex: acquire\"\nuses.m = { cpu = \"1ms\" }\n[tasks.second]\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nperiod = \"20ms\"\nbudget = \"2ms\"\nwcet = \"1ms\"\nhandles.m = \"engine mutex: acquire\"\nuses.m = { cpu = \"1ms\" }\n\n[endpoints.service]", 43, "task `first` is hard, but not proved: `second` may hold engine `mutex` for longer than it says; is it `hard`, or to be `trusted`?"),
    ("[endpoints.service]", "[tasks.first]\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nperiod = \"10ms\"\nbudget = \"3ms\"\nwcet = \"1ms\"\nhandles.m = \"engine mutex: acquire\"\nuses.m = { times = 2, cpu = \"1ms\", operation = \"2ms\" }\n[tasks.second]\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nperiod = \"20ms\"\nbudget = \"2ms\"\nwcet = \"1ms\"\nhandles.m = \"engine mutex: acquire\"\nuses.m = { times = 3, operation = \"3ms\" }\n\n[endpoints.service]", 83, "the real-time tasks hold engine `mutex` for 105.0% of its time, of which `first` has 60.0%"),
    ("[endpoints.service]", "[tasks.first]\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nperiod = \"10ms\"\nbudget = \"3ms\"\nwcet = \"1ms\"\nhandles.m = \"engine mutex: acquire\"\nuses.m = { cpu = \"1ms\" }\n[tasks.second]\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nperiod = \"20ms\"\nbudget = \"2ms\"\nwcet = \"1ms\"\nhandles.m = \"engine mutex: acquire\"\nuses.m = { operation = \"8ms\" }\n\n[endpoints.service]", 37, "task `first` needs more than its period (10 ms): 3.000 ms of budget, 0.000 ms of operations, 8.000 ms of blocking, first mutex by second"),
    ("[endpoints.service]", "[tasks.first]\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nperiod = \"10ms\"\nbudget = \"3ms\"\nwcet = \"1ms\"\nhandles.m = \"engine mutex: acquire\"\nuses.m = { cpu = \"1ms\" }\n[tasks.second]\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nperiod = \"20ms\"\nbudget = \"2ms\"\nwcet = \"1ms\"\nhandles.m = \"engine mutex: acquire\"\nuses.m = { times = 1, cpu = \"3ms\" }\n\n[endpoints.service]", 37, "budget of `first` (3 ms) is too small for its wcet (1 ms) and what others may take from it while it waits (3 ms)"),
    ("budget = \"2ms\"", "budget = \"2ms\"\nwcet = \"1ms\"\nbudget_covers = \"cpu+engines\"\nuses.ee = { cpu = \"1ms\", operation = \"2ms\" }", 13, "budget of `client` (2 ms) is too small for its wcet (1 ms), what others may take from it while it waits (0 ns), and the engines it holds, preemptions included (3 ms)"),
    ("[endpoints.service]", "[pools.p]\nreplicas = 1\ncluster = \"left\"\n[tasks.more]\ncopies = 2\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nperiod = \"10ms\"\nbudget = \"1ms\"\nwcet = \"500us\"\nhandles.p = \"pool p: acquire\"\nuses.p = { cpu = \"6ms\" }\n\n[endpoints.service]", 37, "the real-time tasks need 120.0% of 1 token of pool `p`, of which `more1` needs 60.0%"),
    ("[endpoints.service]", "[engines.a]\ngroup = \"g\"\n[engines.b]\ngroup = \"g\"\n[tasks.last]\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nclass = \"background\"\nhandles.a = \"engine a: acquire\"\nuses.a = { cpu = \"1ms\" }\n[tasks.hand]\nscript = [\"burn 1ms\"]\ncluster = \"left\"\nperiod = \"10ms\"\nbudget = \"1ms\"\nhandles.a = \"engine a: acquire\"\nuses.a = { cpu = \"1us\" }\n\n[endpoints.service]", 7, "waiting in cluster `left` is not bounded: a+b is by priority, and tasks that are not real-time may be ahead again and again"),
    ("cpus = [1]\n", "cpus = [1]\npolicy = \"RM\"\n[tasks.early]\nscript = [\"burn 1ms\"]\ncluster = \"right\"\nperiod = \"10ms\"\nbudget = \"1ms\"\nearly_release = true\n", 18, "`early` may not release early: keys of cluster `right` do not depend on deadlines, so nothing would bound how many budgets it takes; that takes EDF or FL"),
];

/// Programs of `client` that cannot be packed; `None`: it was not built.
#[allow(clippy::type_complexity, reason = "a table of two columns")]
const PROGRAMS: &[(fn() -> Option<Vec<u8>>, &str)] = &[
    (|| None, "binary `apps/client` was not built"),
    (|| Some(b"#!/bin/sh\n".to_vec()), "binary `apps/client` is not a program for this machine: not a 64-bit ELF file"),
    (
        || Some(without_note()),
        "binary `apps/client` does not say which version of the kernel it was built for: programs begin with `fusee::entry!`, \
         which adds the note .note.fusee (docs/stability.md)",
    ),
    (
        || Some(elf_with(&[Segment(5, 0x20_0000, &[0; 8], 8)], Note::of(0, "0.0.9"))),
        "binary `apps/client` was built for version 0 of the kernel's ABI, with fusee 0.0.9; this kernel has version 4, with \
         fusee 0.1.0: build both from one revision",
    ),
    (
        || Some(elf(&[Segment(7, 0x20_0000, &[0; 8], 8)])),
        "binary `apps/client` has a segment at 0x200000 that is both writable and executable",
    ),
    (
        || Some(elf(&[Segment(5, 0x1000, &[0; 8], 8)])),
        "binary `apps/client` has a segment at 0x1000, which is no page of its own between 2 MiB and 1.5 GiB: link it with \
         linker/task.ld",
    ),
];

/// A program that says no version: none of its sections are counted.
fn without_note() -> Vec<u8> {
    let mut program = elf(&[Segment(5, 0x20_0000, &[0; 8], 8)]);
    program[60] = 0;
    program
}

macro_rules! reasons {
    ($($name:ident)*) => {
        const REASONS: &[&str] = &[$(stringify!($name)),*];

        fn name(reason: &Reason) -> &'static str {
            match reason {
                $(Reason::$name { .. } => stringify!($name),)*
            }
        }
    };
}

// A reason that is not listed does not compile; one without a row fails.
reasons! {
    Unreadable Syntax DuplicateKey MissingKey UnknownKey UnknownValue DefinedTwice LikeItself Unknown
    NotMeasured BadTimes NotBeside BadName NameTooLong NameTaken BadHandle BadRight NotTheServer NoReceiver NoWaiter DriverNeeds
    RegionTwice TooLargeToLend BadStep BinaryOrScript Zero Needs NoLength Excludes GroupInItself GroupTooDeep GraphCycle GraphStarves NoReplicas UnevenEdge TooLate LatencyNotProved BudgetExceeds
    BudgetTooSmall ExecutionExceeds TooLong OutOfRange OperationsOutOfRange NotOptions NotPages TooMany Crowded
    NoSuchCpu BoardLacks CpuInTwoClusters CpuInNoCluster NoCluster EngineInTwoClusters TwoOrders
    PoolOfAnotherCluster ClusterOfShared NoToken LockTwice PlaceTaken DeviceFull SecondLine
    TwoFirmwares NotSquare Distance TwoDevices Overlap KernelDevice PoolExhausted NoAddresses
    NotUsed Overload ServicePeriod ReleasesEarly EarlyKeys EarlyJobs WatchdogTooShort Overcommitted TooFewTokens
    WaitsTooLong LendsTooMuch DrawsTooMuch NotCounted NotEnforced Drops Unbounded NotProved NoBinary
    BadBus BadFrame FrameTooOften BusOverload FrameTooLate FrameNotProved
    NotAnElf WritableCode BadSegment NoVersion WrongVersion NoProgram TwoPrograms BadClusters BadMark BadExit BadTurns
}

fn parse(text: &str) -> Result<Manifest, ManifestErrors> {
    Manifest::parse(Path::new("m.toml"), text)
}

fn rows() -> impl Iterator<Item = &'static Row> {
    [PARSED, WRITTEN, APART, MEANT, ADMITTED].into_iter().flatten()
}

/// The place in the good manifest of the text that this row replaces.
fn place(row: &Row) -> Range<usize> {
    let start = GOOD.find(row.0).unwrap_or_else(|| panic!("the good manifest has no `{}`", row.0));
    start..start + row.0.len()
}

/// Whether the rows leave all lines where they are, and each other alone.
fn are_beside(rows: &[&Row]) -> bool {
    let keeps_lines = |row: &&Row| row.0.matches('\n').count() == row.1.matches('\n').count();
    let mut places: Vec<Range<usize>> = rows.iter().map(|row| place(row)).collect();
    places.sort_by_key(|place| place.start);
    rows.iter().all(keeps_lines) && places.windows(2).all(|two| two[0].end <= two[1].start)
}

/// The messages about the good manifest with these mistakes.
fn said(rows: &[&Row]) -> Vec<(usize, String)> {
    let mut rows: Vec<&Row> = rows.to_vec();
    rows.sort_by_key(|row| std::cmp::Reverse(place(row).start));
    let mut text = GOOD.to_owned();
    for row in &rows {
        text.replace_range(place(row), row.1);
    }
    let errors = parse(&text).map(|_| ()).expect_err(&text);
    errors.0.iter().map(|error| (error.line, error.reason.to_string())).collect()
}

fn packed(client: Option<Vec<u8>>) -> Result<(), ManifestError> {
    let manifest = parse(GOOD).expect("a good manifest");
    let mut binaries = Binaries::new();
    for name in ["apps/server", "apps/scripted", "engine-core"] {
        binaries.insert(name.into(), elf(&[Segment(5, 0x20_0000, &[0; 8], 8)]));
    }
    binaries.extend(client.map(|client| ("apps/client".into(), client)));
    manifest.pack(&binaries, PackOptions { cpu_stride: 1, managed: None }).map(|_| ())
}

#[test]
fn each_kind_of_mistake_is_refused_on_its_line_with_its_reason() {
    parse(GOOD).expect("a good manifest");
    assert!(rows().count() >= 60);
    for row in rows() {
        assert_eq!(said(&[row]), [(row.2, row.3.to_owned())], "{row:?}");
    }
    for (program, words) in PROGRAMS {
        let error = packed(program()).expect_err(words);
        assert_eq!((error.line, error.reason.to_string()), (14, (*words).to_owned()));
    }
}

#[test]
fn each_reason_has_a_row() {
    let reasons = rows().map(|row| parse(&GOOD.replacen(row.0, row.1, 1)).expect_err(row.1).0.remove(0).reason);
    let mut seen: BTreeSet<&str> = reasons.map(|reason| name(&reason)).collect();
    seen.extend(PROGRAMS.iter().map(|(program, words)| name(&packed(program()).expect_err(words).reason)));
    // These are for a builder of programs.
    seen.extend(["NoProgram", "TwoPrograms"]);
    // These take an engine with a sharer, which `groups.rs` has.
    seen.extend(["GroupInItself", "GroupTooDeep"]);
    // And these a graph, which `graphs.rs` has.
    seen.extend(["GraphCycle", "GraphStarves", "NoReplicas", "UnevenEdge", "TooLate", "LatencyNotProved"]);
    // And these a bus, which `buses.rs` has.
    seen.extend(["BadBus", "BadFrame", "FrameTooOften", "BusOverload", "FrameTooLate", "FrameNotProved"]);
    seen.insert(name(&Manifest::read(Path::new("nowhere.toml")).expect_err("there is no such file").0[0].reason));
    assert_eq!(seen, REASONS.iter().copied().collect());
}

#[test]
fn three_mistakes_in_one_file_give_three_errors() {
    let text = GOOD.replacen("budget = \"2ms\"", "budget = \"11ms\"", 1);
    let text = text.replacen("device = \"gpu\"", "device = \"cpu\"", 1).replacen("region shared", "region share", 1);
    let expected = "m.toml:17: budget of `client` (11 ms) exceeds its period (10 ms)\n\
                    m.toml:19: no region is called `share`; did you mean `shared`?\n\
                    m.toml:62: no device is called `cpu`; did you mean `gpu`?\n\
                    3 mistakes";
    assert_eq!(parse(&text).expect_err("mistakes").to_string(), expected);
}

/// Two edits of one place may hide a mistake that follows from the other, and shows no new one.
#[test]
fn of_two_mistakes_no_consequence_is_shown() {
    let alone: Vec<(&Row, (usize, String))> =
        [WRITTEN, APART, MEANT].into_iter().flatten().map(|row| (row, (row.2, row.3.to_owned()))).collect();
    let mut pairs = 0;
    for (index, (first, one)) in alone.iter().enumerate() {
        for (second, other) in &alone[index + 1..] {
            // With another number of CPUs other clusters are right.
            if are_beside(&[first, second]) && ![first.0, second.0].contains(&"cpus = 2") {
                let both = said(&[first, second]);
                assert!(both.contains(one) || both.contains(other), "{first:?} {second:?} {both:?}");
                assert!(both.iter().all(|error| error == one || error == other), "{first:?} {second:?} {both:?}");
                pairs += 1;
            }
        }
    }
    assert!(pairs > 1_000, "{pairs}");
}

proptest! {
    #[test]
    fn mistakes_that_have_nothing_to_do_with_each_other_are_all_shown(
        written in subsequence(WRITTEN.to_vec(), 0..=WRITTEN.len()),
        apart in subsequence(APART.to_vec(), 0..=APART.len()),
    ) {
        // The first of those at one place counts; values without a meaning count only if all is written well.
        let mut chosen: Vec<&Row> = Vec::new();
        for row in written.iter().chain(&apart) {
            chosen.push(row);
            if !are_beside(&chosen) {
                chosen.pop();
            }
        }
        prop_assume!(!chosen.is_empty());
        let shown: Vec<&&Row> = chosen.iter().filter(|row| WRITTEN.contains(row)).collect();
        let shown = if shown.is_empty() { chosen.iter().collect() } else { shown };
        let mut expected: Vec<(usize, String)> = shown.iter().map(|row| (row.2, row.3.to_owned())).collect();
        expected.sort_by_key(|(line, _)| *line);
        prop_assert_eq!(said(&chosen), expected);
    }
}

#[test]
fn a_trace_that_is_not_kept_is_shown_to_nobody() {
    let text = GOOD.replace("admission", "trace = \"off\"\nadmission").replace("bytes = \"8KiB\"", "trace = true");
    let errors = Manifest::parse(Path::new("m.toml"), &text).unwrap_err().to_string();
    assert!(
        errors.contains("m.toml:49: trace of `shared` means nothing together with `trace = \"off\"` of the system"),
        "{errors}"
    );
}

/// Mistakes are looked for in one named table after the other, so that many take no longer than as many tables.
#[test]
fn of_thousands_of_mistakes_each_is_shown() {
    const TASKS: usize = 3_000;
    let head = "[system]\nname = \"m\"\nboard = \"virt\"\ncpus = 1\nboards = 2\n";
    let task = |number: usize| {
        format!("[tasks.t{number}]\nbinary = \"a/b\"\nperiod = \"10ms\"\nbudgett = \"1ms\"\nspare = 1\n")
    };
    let text = head.to_owned() + &(0..TASKS).map(task).collect::<String>();
    let errors = Manifest::parse(Path::new("m.toml"), &text).unwrap_err().0;
    assert_eq!(errors.len(), 2 * TASKS + 1);
    let lines: Vec<usize> = errors.iter().map(|error| error.line).collect();
    let expected: Vec<usize> =
        [5].into_iter().chain((0..TASKS).flat_map(|task| [5 * task + 9, 5 * task + 10])).collect();
    assert_eq!(lines, expected);
}
