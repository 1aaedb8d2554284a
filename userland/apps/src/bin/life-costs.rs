//! The cost of another life of a task for the kernel, in instructions: the shortest of several times, less the code around it.
//!
//! | role        | measures                                                                                               |
//! |-------------|--------------------------------------------------------------------------------------------------------|
//! | 0, watcher  | its victim's death, up to its own next instruction (0), a restart (1), the first call after one (2); ends the system |
//! | 1, victim   | serves; a first word of one has it end, and leave the time of that in region "page"                     |
//!
//! The watcher is the system's supervisor. Handles: endpoint "requests" (call, or receive), region "page", of the watcher "system".
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use apps::least;
use fusee::{
    Endpoint, Environment, Instant, Notification, Region, Server, System, Task, counter, environment, exit, log,
    shutdown,
};

fusee::entry!(main);

const SAMPLES: usize = 64;

fn main() {
    let environment = environment();
    match environment.parameter("role").expect("the parameter `role` says what to be") {
        0 => watch(&environment),
        1 => serve(&environment),
        unknown => panic!("there is no role {unknown}"),
    }
}

fn watch(environment: &Environment) {
    let victim = environment.expect::<Task>("task.victim");
    let [ends, starts] = ["ends", "starts.victim"].map(|name| environment.expect::<Notification>(name));
    let (requests, page) = (environment.expect::<Endpoint>("requests"), environment.expect::<Region>("page").shared());
    let mut shortest = [u64::MAX; 3];
    for _ in 0..SAMPLES {
        requests.send([1, 0, 0, 0, 0, 0], Instant::NEVER).expect("it serves");
        ends.wait(Instant::NEVER).expect("it ends");
        let woken = counter();
        let died = page.read_u64(0);
        let before = counter();
        victim.restart().expect("it has ended");
        let between = counter();
        let is_told = requests.call([0; 6], Instant::NEVER).is_err();
        let after = counter();
        assert!(is_told, "it lives anew");
        for (shortest, time) in shortest.iter_mut().zip([woken - died, between - before, after - between]) {
            *shortest = time.min(*shortest);
        }
        starts.wait(Instant::NEVER).expect("it comes up");
    }
    let around = least(SAMPLES, || ());
    for (row, shortest) in shortest.into_iter().enumerate() {
        log(row as u64, shortest - around);
    }
    shutdown(environment.expect::<System>("system"), 0)
}

fn serve(environment: &Environment) {
    let mut server = Server::new(environment.expect::<Endpoint>("requests"));
    let page = environment.expect::<Region>("page").shared();
    loop {
        let request = server.receive(Instant::NEVER).expect("somebody asks");
        if request.words[0] == 1 {
            page.write_u64(0, counter());
            exit(0);
        }
    }
}
