//! Sends values through a channel to a task that looks at each; the parameter `role` selects one.
//!
//! | role        | handles                                                                        | does                          |
//! |-------------|--------------------------------------------------------------------------------|-------------------------------|
//! | 0, sender   | region "queue" (read, write), notifications "sent" (signal) and "taken" (wait) | sends; `log(1, values)`       |
//! | 1, receiver | the region, "sent" (wait), "taken" and "done" (signal)                         | takes; `log(2, right values)` |
//! | 2, vandal   | the region, "sent" (signal), "done" (wait)                                     | writes nonsense there         |
//!
//! Both ends pause now and then, each at other values, so that the queue runs empty and full. When all have arrived the receiver
//! waits for one more until a deadline: `log(3, 6)` if that passes. Then it lets the vandal loose, and
//! goes on receiving: `log(4, 1)` at the first typed error.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::{
    ChannelError, Environment, Instant, Nanoseconds, Notification, Receiver, Region, Sender, WaitError, burn,
    environment, log, now,
};

fusee::entry!(main);

/// How many values are sent.
const VALUES: u64 = 10_000;
/// A value: its number, and words computed from that.
type Value = [u64; 5];

fn main() {
    let environment = environment();
    match environment.parameter("role").expect("the parameter `role` says what to be") {
        0 => send(&environment),
        1 => receive(&environment),
        2 => vandalise(&environment),
        unknown => panic!("there is no role {unknown}"),
    }
}

fn value(number: u64) -> Value {
    let mut value = [number; 5];
    for index in 1..value.len() {
        value[index] = (value[index - 1] ^ index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    }
    value
}

fn soon() -> Instant {
    now().now + Nanoseconds(100_000_000)
}

fn send(environment: &Environment) {
    let [sent, taken] = ["sent", "taken"].map(|name| environment.expect::<Notification>(name));
    let memory = environment.expect::<Region>("queue").shared();
    let mut values = Sender::<Value>::new(memory, sent, taken).expect("the region is large enough");
    for number in 1..=VALUES {
        let deadline = if number % 3 == 0 { soon() } else { Instant::NEVER };
        values.send(&value(number), deadline).expect("there is room soon");
        if number % 1_000 == 0 {
            burn(Nanoseconds(300_000));
        }
    }
    log(1, VALUES);
}

fn receive(environment: &Environment) {
    let [sent, taken] = ["sent", "taken"].map(|name| environment.expect::<Notification>(name));
    let memory = environment.expect::<Region>("queue").shared();
    let mut values = Receiver::<Value>::new(memory, sent, taken).expect("the region is large enough");
    let mut right = 0;
    for number in 1..=VALUES {
        let deadline = if number % 7 == 0 { soon() } else { Instant::NEVER };
        right += u64::from(values.receive(deadline).expect("there is a value soon") == value(number));
        if number % 700 == 0 {
            burn(Nanoseconds(400_000));
        }
    }
    log(2, right);
    let last = values.receive(now().now + Nanoseconds(1_000_000));
    log(3, if last == Err(ChannelError::Wait(WaitError::TimedOut)) { 6 } else { 0 });
    environment.expect::<Notification>("done").signal(1).expect("the vandal may be woken");
    loop {
        match values.receive(soon()) {
            Ok(_) => {}
            Err(ChannelError::Corrupt) => return log(4, 1),
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// The words that the other side relies on are anything from now on.
fn vandalise(environment: &Environment) {
    let memory = environment.expect::<Region>("queue").shared();
    environment.expect::<Notification>("done").wait(Instant::NEVER).expect("the vandal may wait");
    let sent = environment.expect::<Notification>("sent");
    let mut word = 1u32;
    loop {
        for offset in (0..memory.len()).step_by(4) {
            word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            memory.write_u32(offset, word);
        }
        sent.signal(1).expect("the vandal may signal");
    }
}
