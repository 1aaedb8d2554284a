//! How each key of a manifest, each right and each call enters the proofs: as a term of a bound or a condition of one; as something that makes the
//! tasks that it touches not counted; or not at all, and why it cannot matter.
//!
//! A key without a row does not compile here, nor does a call: the author of a new one enters its effect on the proofs here, and a test compares rows
//! without effect with the results of `analyze`.
//!
//! Not here: the terms and conditions themselves.

use fusee_abi::call::Call;

use fusee_manifest::schema;

/// How something enters the proofs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Obligation {
    /// A term of bounds, or a condition of them: where.
    Counted(&'static str),
    /// The tasks that it touches are not called proved.
    NotCounted(&'static str),
    /// The reason for which it cannot matter.
    Nothing(&'static str),
}

use Obligation::{Counted, NotCounted, Nothing};

macro_rules! keys {
    ($($table:ident at $path:literal { $($key:ident: $obligation:expr,)+ })+) => {
        /// The obligation of each key, by the table it stands in.
        pub const KEYS: &[(&str, &[(&str, Obligation)])] =
            &[$(($path, &[$((stringify!($key), $obligation)),+])),+];

        // All fields, and no others.
        $(const _: fn(&schema::$table) = |schema::$table { $($key: _),+ }| ();)+
    };
}

const NAMES: Obligation = Nothing("a name");
/// The bounds of frames, which no task's bound rests on, and which nothing packs.
const FRAMES: Obligation =
    Counted("bounds of frames alone: no bound of a task rests on it, and the kernel does not know of it (`buses`)");
const RUN: Obligation = Nothing("how a run is judged, not what is built");

keys! {
    File at "" {
        system: Counted("below"),
        board: Counted("below"),
        clusters: Counted("below"),
        tasks: Counted("below"),
        endpoints: Counted("below"),
        notifications: Counted("below"),
        interrupts: Counted("below"),
        regions: Counted("below"),
        devices: Counted("below"),
        engines: Counted("below"),
        groups: Counted("below"),
        graphs: Counted("below"),
        pools: Counted("below"),
        buses: Counted("below"),
        supervisor: Counted("below"),
        test: RUN,
        measures: Nothing("no key: times of kernels are being measured, and nothing is proved of that system"),
    }
    System at "system" {
        name: NAMES,
        variant: Nothing("no key: the policy and clusters that a test replaces, which are read in place of the manifest's"),
        board: Counted("its interrupts hit the CPUs they lead to (`interrupts`)"),
        cpus: Counted("CPUs of clusters (`task::Cluster`)"),
        start: Counted("budgets start over then, and the first releases are not before; phases count only if it is not zero (`Study::phases`)"),
        end: Nothing("written out as tasks before: `end` with these keys"),
        policy: Counted("priority points (`task::Cluster`)"),
        managed: Counted("without it nothing is proved of those who use engines of devices (`Waiting::unmanaged`)"),
        trace: Nothing("what the kernel writes down; its time is among the costs of paths"),
        admission: Nothing("whether a system is built, never what is proved of it (`verdict`)"),
        panic: Nothing("what follows a panic, after which nothing is proved"),
        speaks: Nothing("what is printed before time zero, and after the end"),
        distance: Counted("which way copies go between devices: `uses` says how long they take"),
    }
    OwnBoard at "board" {
        devices: Counted("below"),
        is_elsewhere: Nothing("no key: the system is built for another board"),
    }
    OwnDevice at "board.devices.*" {
        kind: Nothing("registers of its own"),
        at: Nothing("registers of its own"),
        bytes: Nothing("registers of its own"),
        line: Nothing("registers of its own: an interrupt names its line"),
        stream: Nothing("which memory a device reaches"),
        masters_memory: Nothing("which memory a device reaches"),
        qemu: Nothing("what emulates it"),
    }
    DeviceQemu at "board.devices.*.qemu" {
        arguments: Nothing("what emulates it"),
        bytes: Nothing("what emulates it"),
    }
    EndTask at "system.end" {
        after: Nothing("written out as tasks before: a step of a script"),
        cluster: Nothing("written out as tasks before"),
        period: Nothing("written out as tasks before"),
        deadline: Nothing("written out as tasks before"),
        budget: Nothing("written out as tasks before"),
        suspends: Nothing("written out as tasks before"),
    }
    Cluster at "clusters.*" {
        cpus: Counted("CPUs of the cluster"),
        policy: Counted("priority points"),
    }
    Task at "tasks.*" {
        like: Nothing("written out as tasks before, with the keys of another"),
        binary: NotCounted("what a program does is taken from its handles: all that they let it wait for and do (`servers`, `scripts::allowed`)"),
        elf: NotCounted("as `binary`"),
        script: Counted("steps are summed up, and held against what is declared (`scripts`)"),
        model: Counted("steps are held against what is declared, as those of scripts are (`scripts`)"),
        copies: Nothing("written out as tasks before"),
        cluster: Counted("whom it interferes with"),
        class: Counted("classes other than real-time come after all jobs; as users of locks they are counted"),
        release: Counted("sporadic releases are no closer than the period; whether the clock releases all jobs (`Study::phases`)"),
        period: Counted("interference, backlog, utilisation"),
        deadline: Counted("what the response is held against; priority points"),
        budget: Counted("the execution time of a job (`uniprocessor`, `interference`), and room for what others take"),
        wcet: Counted("what of the budget is left for others (`Study::is_covered`); points under FL"),
        priority: Counted("points under FP"),
        overrun: Counted("no job takes more than its budget; `early-release` counts as `early_release`"),
        budget_covers: Counted("engine time, and preemptions in holds (`drawn`)"),
        backlog: Counted("places for releases, against the response (`Study::dropped`)"),
        suspends: Counted("execution that is added (`Locks::suspends`); on one CPU the task's own, and jitter of others (`suspension`)"),
        trusted: Counted("who keeps to what is declared (`keeps_word`), also in its sleeps (`Locks::rests`) and with its releases (`Study::phases`)"),
        sleeps_inside: NotCounted("those who share a lock with it (`scripts::allowed`)"),
        early_release: Counted("a budget taken in advance is the next job's, with its key, so responses of others may last until their deadlines (`Bound::put_off`); refused where keys do not depend on deadlines"),
        early: Counted("jobs of nodes that begin before their releases come behind all real-time jobs; their releases are as before"),
        is_released_by_tokens: Nothing("no key: a graph releases it"),
        phase: Counted("first releases, where the clock releases all jobs of a cluster (`Study::phases`); all other bounds hold for any"),
        hard: Counted("what is wanted: refused unless proved; and it keeps its word (`keeps_word`)"),
        stack: Nothing("memory"),
        parameters: Nothing("numbers that a program is told"),
        handles: Counted("all that it may wait for and do; see the rights"),
        uses: Counted("holds, sections and calls; see its keys"),
        restart: Counted("a life is no new task: its reservation is the same; what it serves is away meanwhile (`lives`)"),
        dormant: Counted("as if it had begun: its load is counted always, with releases at any instants (`Study::phases`)"),
        shares: Nothing("clients without a lock have an engine only while nobody who has one wants it"),
    }
    Supervisor at "supervisor" {
        task: Counted("its `suspends` is long enough for all that may begin at once (`lives`)"),
        dies: Nothing("what follows its end, after which tasks have no further lives"),
    }
    RestartLimits at "tasks.*.restart" {
        at_most: Counted("who is watched (`lives`)"),
        within: Nothing("how often at most; its load is counted always"),
        delay: Counted("how long it is away (`lives`)"),
        longest_delay: Counted("how long it is away (`lives`)"),
        start_within: Counted("what the supervisor waits for it (`lives`)"),
    }
    Share at "tasks.*.shares.*" {
        group: Nothing("as `shares`"),
        weight: Nothing("as `shares`"),
    }
    Use at "tasks.*.uses.*" {
        times: Counted("requests of a job or a service (`locks::User`, `servers::Caller`)"),
        cpu: Counted("the CPU time of a hold or a section"),
        operation: Counted("the engine's time in a hold"),
        operations: Counted("the engine's time in all holds of a job"),
        commands: Counted("how often a hold waits for room on SMs (`uses`)"),
        awaits: Counted("whose ends are left to others' waits (`interrupts::other_ends`)"),
        block: Counted("how long others wait for room (`spatial`)"),
        within: Counted("holds that are part of a section (`locks::Pool`)"),
        with: Counted("an engine that is held for as long"),
    }
    Endpoint at "endpoints.*" {
        server: Counted("whose services are waited for"),
        service_max: Counted("the CPU time of a service; boosts"),
        service_period: Counted("how often a server is boosted; nobody of that cluster is proved without, where clusters share it"),
    }
    Notification at "notifications.*" {
        bound: Counted("whoever signals it may have the priority of those who wait (`Locks::signallers`), and runs where these are: not counted from another cluster (`Waiting::lent_elsewhere`)"),
    }
    Interrupt at "interrupts.*" {
        line: Nothing("its number"),
        notification: Nothing("whom it wakes: a wait for it is declared or not counted"),
        bits: Nothing("which bits it sets"),
        cluster: Counted("whose CPUs its top halves hit (`interrupts`)"),
        cpu: Counted("as `cluster`"),
        edge: Nothing("how the line is acknowledged"),
    }
    Region at "regions.*" {
        part_of: Nothing("no key: pages with the words of nodes"),
        bytes: Nothing("memory"),
        physical: Nothing("memory"),
        device: Nothing("memory"),
        trace: Nothing("memory"),
        cached: Nothing("memory: how long accesses take is part of what is declared"),
        dma: Nothing("which memory a device reaches"),
    }
    Device at "devices.*" {
        driver: Counted("who ends operations (`completion`), and who may end that one (`Waiting::ended`)"),
        engines: Nothing("written out as tasks before, or as engines"),
        buffers: Nothing("written out as tasks before: the handles of a driver"),
        firmware: Nothing("what emulates it"),
        device: Nothing("registers of its own"),
        memory: Nothing("memory"),
        copy_engines: Nothing("which engines there are; `engines` says of each"),
        preemptible: Nothing("what a driver may do between two operations"),
        contexts: Nothing("how many clients it has"),
        arbiter: Nothing("which of the clients without a lock is next: whoever has one waits for one command of theirs (`shared_longest`)"),
        weights: Nothing("as `arbiter`"),
        switch: Counted("added to each operation (`uses`)"),
        counters: Nothing("what it counts"),
        sms: Counted("room for commands (`spatial`)"),
        preemption: Counted("how long room takes (`spatial`)"),
        drain_limit: Counted("as `preemption`"),
        kernels: Nothing("which kernels there are"),
        sessions: Nothing("contexts of clients without a lock"),
        times: Counted("operations of launches (`uses`)"),
        time_table: Nothing("no key: what is in the file of `times`"),
    }
    Sessions at "devices.*.sessions" {
        endpoint: Nothing("contexts of clients without a lock"),
        contexts: Nothing("as `endpoint`"),
        each: Nothing("as `endpoint`"),
    }
    Engine at "engines.*" {
        device: Counted("a hold may wait for operations; without one it is a mutex"),
        index: Nothing("which of the device's"),
        order: Counted("who comes before a request (`locks::Order`)"),
        group: Counted("one lock with the others of the group"),
        pool: Counted("holds need a token (`rivals`)"),
        interrupt: Counted("its top halves (`interrupts`)"),
        watchdog: Counted("no shorter than declared holds; with `hangs` a term of the hold"),
        reset_bound: Counted("as `watchdog`"),
        arbiter: Counted("the device decides: holds of others are no blocking, and cost what saving and restoring takes (`spatial`)"),
        completion: Counted("the end of each operation"),
        shared_longest: Counted("the command of a client without a lock that is under way (`take_back`)"),
        sharer: Nothing("decides among clients without a lock"),
        hangs: Counted("a hold is longer by `watchdog` and `reset_bound`"),
    }
    Group at "groups.*" {
        engine: Nothing("as `shares` of tasks"),
        parent: Nothing("as `shares` of tasks"),
        weight: Nothing("as `shares` of tasks"),
        manager: Nothing("as `shares` of tasks"),
        within: Nothing("as `shares` of tasks"),
    }
    Graph at "graphs.*" {
        source: Counted("releases by the clock; the rates of all others (`latency`)"),
        latency: Counted("what the bound of the graph is held against"),
        device: Nothing("where its objects are"),
        edges: Counted("below"),
        objects: Counted("below"),
    }
    GraphEdge at "graphs.*.edges.*" {
        from: Counted("who releases whom (`latency`)"),
        to: Counted("as `from`"),
        produces: Counted("rates: periods of nodes, and latency"),
        consumes: Counted("as `produces`"),
        threshold: Counted("as `produces`"),
        initial: Counted("as `produces`"),
    }
    GraphObject at "graphs.*.objects.*" {
        writer: Counted("it may wait for a frame: not counted with too few `replicas`, nor beside readers that are not to be trusted (`Waiting::kept_waiting`)"),
        bytes: Nothing("memory"),
        readers: Counted("how long a frame is needed (`latency::replicas`)"),
        on_device: Nothing("memory"),
        replicas: Counted("fewer than needed: its writer is not counted"),
        overwrite: Counted("its writer waits for no reader"),
    }
    GraphReader at "graphs.*.objects.*.readers.*" {
        delay: Counted("how long a frame is needed (`latency::replicas`)"),
        history: Counted("as `delay`"),
    }
    Pool at "pools.*" {
        replicas: Counted("tokens (`locks::Protocol`)"),
        limit: Counted("who joins which queue (`locks::Protocol`)"),
        total_limit: Counted("as `limit`"),
        cluster: Counted("whose jobs share it"),
        shortest: Counted("as `limit`"),
        devices: Counted("on which of several devices a job works (`locks::Alternative`)"),
        advice: Counted("any queue may be chosen (`locks::Pool::advised`)"),
        watchdog: Counted("no shorter than declared sections"),
    }
    Bus at "buses.*" {
        bit_rate: FRAMES,
        data_rate: FRAMES,
        fault_interval: FRAMES,
        frames: Counted("below"),
    }
    BusFrame at "buses.*.frames.*" {
        identifier: FRAMES,
        extended: FRAMES,
        bytes: FRAMES,
        fd: FRAMES,
        period: FRAMES,
        jitter: FRAMES,
        deadline: FRAMES,
        sender: Counted("bounds of frames alone, which rest on its response time and on its word"),
        to: Counted("the latency of the frame, which rests on the response time of that task"),
    }
    Test at "test" {
        profiles: RUN,
        exit: RUN,
        marks: RUN,
        faults: RUN,
        faults_in_any_order: RUN,
        exits: RUN,
        console: RUN,
        no_misses: RUN,
        verdict: RUN,
        taken: RUN,
        seconds: RUN,
        input: RUN,
        screenshot: RUN,
        power_button: RUN,
        echo: RUN,
        files: RUN,
        judge: RUN,
        self_check: RUN,
        repeatable: RUN,
        campaign: RUN,
        turns: RUN,
        eighth: RUN,
        policies: RUN,
        clusters: RUN,
        places: RUN,
        responses: RUN,
    }
}

/// The obligation of each right, by the kind of object.
pub const RIGHTS: &[(&str, &[(&str, Obligation)])] = &[
    (
        "endpoint",
        &[
            ("call", Counted("a wait for a service, as often as `uses` says; not counted if that says nothing")),
            (
                "send",
                NotCounted("a task that sends, and callers of a server whose requests are sent by tasks with jobs"),
            ),
            (
                "receive",
                Counted("a server; a task with jobs that receives is not counted, unless `uses` and `suspends` say it"),
            ),
            ("grant", NotCounted("callers of an endpoint that anybody may be let call")),
            ("inside", NotCounted("those who share a lock with it, unless it is its driver's (`scripts::allowed`)")),
        ],
    ),
    (
        "notification",
        &[
            ("signal", Counted("only of bound ones: who signals has a priority (`Locks::signallers`)")),
            (
                "wait",
                NotCounted("a task that waits, unless `uses` and `suspends` say it, or its driver signals completions"),
            ),
            (
                "grant",
                Nothing(
                    "a copy has no right that its source has not; who waits for it is not counted, whoever signals",
                ),
            ),
            (
                "inside",
                NotCounted("those who share a lock with it, unless completions are signalled (`scripts::allowed`)"),
            ),
        ],
    ),
    (
        "engine",
        &[
            (
                "acquire",
                Counted(
                    "holds, as `uses` says; nothing is counted for all who share an engine of which one says nothing",
                ),
            ),
            ("share", Counted("`shared_longest` of the engine, and top halves (`take_back`, `Shared`)")),
            (
                "inside",
                NotCounted("those who share another lock with it, unless it is held with a token (`scripts::allowed`)"),
            ),
        ],
    ),
    (
        "pool",
        &[
            (
                "acquire",
                Counted(
                    "sections, as `uses` says; nothing is counted for all who share a pool of which one says nothing",
                ),
            ),
            ("inside", NotCounted("those who share another lock with it (`scripts::allowed`)")),
        ],
    ),
    ("interrupt", &[("acknowledge", Nothing("the line of a device of which it is the driver"))]),
    (
        "region",
        &[
            ("read", Nothing("memory")),
            ("write", Nothing("memory: each node of a graph has its counters alone")),
            ("map", Nothing("memory")),
            ("physical", Nothing("memory")),
            ("lend", Nothing("memory: a page of a service is mapped within it")),
            ("lent", Nothing("memory")),
        ],
    ),
    (
        "task",
        &[
            ("release_job", Nothing("releases are no closer than the period, whoever asks for them")),
            ("credit", Nothing("as `release_job`")),
            ("stop", Counted("who may end a task, its servers and drivers, is `hard` or `trusted` (`Waiting::ended`)")),
            ("start", Nothing("its load is counted always")),
            ("grant", Nothing("a copy has no right that its source has not")),
        ],
    ),
    ("system", &[("shutdown", Nothing("what ends with the system has no deadlines any more"))]),
];

/// The obligation of each system call.
#[must_use]
pub const fn of_call(call: Call) -> Obligation {
    match call {
        Call::Call | Call::CallWith => Counted("the right `call`"),
        Call::ReplyReceive | Call::Receive => Counted("the right `receive`"),
        Call::Send => NotCounted("the right `send`"),
        Call::Signal => Counted("the right `signal`"),
        Call::Wait => NotCounted("the right `wait`"),
        Call::NextJob => Counted("the end of a job, which is in its budget"),
        Call::ReleaseJob => Nothing("releases are no closer than the period"),
        Call::EarlyRelease => Counted("the key `early_release`"),
        Call::Yield => Nothing("a job that lets others run is as one that is released later"),
        Call::Acquire | Call::Release | Call::AcquireGroup => Counted("holds and sections, as `uses` says"),
        Call::ShouldYield => Nothing("a look"),
        Call::Share => Nothing("decides among clients without a lock"),
        Call::EngineComplete => Counted("the end of a reset: `reset_bound`"),
        Call::Map | Call::Unmap => Nothing("16 pages a trap, on the caller's own budget"),
        Call::Dma => Nothing("which memory a device reaches"),
        Call::Revoke => Nothing("constant time; a call by what was revoked is refused"),
        Call::InterruptAck => Nothing("the line of a device"),
        Call::Now | Call::Null | Call::Log | Call::ReadFault => Nothing("a trap, on the caller's own budget"),
        Call::SleepUntil => Counted("the key `suspends`; while it holds a lock, `sleeps_inside`"),
        Call::Start | Call::Restart => {
            Nothing("the load of a task is counted always; what it needs to begin is `start_within`")
        }
        Call::Stop => Counted("the right `stop`"),
        Call::SetReservation => Nothing("no more than the manifest declares, and no more often"),
        Call::Exit => Nothing("a task that has ended has no deadlines; those who wait for it hear of that"),
    }
}
