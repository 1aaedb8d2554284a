//! A notification goes from its owner through a broker to a client, and is taken back: the parameter `role`
//! selects the task.
//!
//! | role      | handles                                                                                       |
//! |-----------|-----------------------------------------------------------------------------------------------|
//! | 0, owner  | endpoint "deposit" (call), notifications "event" (signal, wait, grant) and "revoked" (signal) |
//! | 1, broker | endpoints "deposit" and "withdraw" (receive)                                                  |
//! | 2, client | endpoint "withdraw" (call), notification "revoked" (wait)                                     |
//!
//! Owner and client log each use of the notification and of their handle, as `log(call, error)`, and exit with code 0.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::abi::Error;
use fusee::abi::call::Call;
use fusee::{
    CallWithError, Endpoint, Environment, HandleError, Instant, Notification, RevokeError, Rights, Server, SignalError,
    environment, give_up, log, revoke,
};

fusee::entry!(main);

fn main() {
    let environment = environment();
    match environment.parameter("role").expect("the parameter `role` says what to be") {
        0 => own(&environment),
        1 => broke(&environment),
        2 => use_lent(&environment),
        unknown => panic!("there is no role {unknown}"),
    }
}

fn own(environment: &Environment) {
    let (event, revoked) = (environment.expect::<Notification>("event"), environment.expect::<Notification>("revoked"));
    let deposit = environment.expect::<Endpoint>("deposit");
    deposit
        .call_with([0; 6], &event, Rights::SIGNAL | Rights::GRANT, Instant::NEVER)
        .expect("the broker takes the notification");
    log(Call::Wait as u64, event.wait(Instant::NEVER).expect("the client signals"));
    log(Call::Revoke as u64, revoke_code(revoke(&event)));
    // The handle that was copied from is as good as before.
    log(Call::Signal as u64, signal_code(event.signal(1)));
    revoked.signal(1).expect("the client waits for it");
}

/// Takes the notification from the owner and gives it to the first client that asks.
fn broke(environment: &Environment) {
    let mut deposits = Server::new(environment.expect("deposit"));
    let mut withdrawals = Server::new(environment.expect("withdraw"));
    let mut request = deposits.receive(Instant::NEVER).expect("the broker may receive");
    let event: Notification = request.take().expect("the owner gives a notification");
    let request = withdrawals.reply_receive(request.token, [0; 6], Instant::NEVER).expect("the client asks");
    let rest = withdrawals.reply_with(request.token, [0; 6], &event, Rights::ALL);
    assert!(matches!(rest, Ok(None)), "the client takes the notification, and nobody else asks");
    // A task that ends takes its copies back.
    let _ = withdrawals.receive(Instant::NEVER);
}

fn use_lent(environment: &Environment) {
    let withdraw = environment.expect::<Endpoint>("withdraw");
    let revoked = environment.expect::<Notification>("revoked");
    let mut answer = withdraw.call_for([0; 6], Instant::NEVER).expect("the broker answers");
    let event: Notification = answer.take().expect("the broker gives a notification");
    let event_again = withdraw.call_with([0; 6], &event, Rights::WAIT, Instant::NEVER);
    let is_refused = matches!(event_again, Err(CallWithError::Handle(HandleError::MissingRight)));
    log(Call::CallWith as u64, if is_refused { Error::MissingRight as u64 } else { u64::MAX });
    log(Call::Signal as u64, signal_code(event.signal(4)));
    revoked.wait(Instant::NEVER).expect("the owner revokes");
    log(Call::Signal as u64, signal_code(event.signal(4)));
    log(Call::Revoke as u64, revoke_code(revoke(&event)));
    log(Call::Revoke as u64, revoke_code(give_up(event)));
    log(Call::Revoke as u64, revoke_code(give_up(event)));
}

fn signal_code(result: Result<(), SignalError>) -> u64 {
    match result {
        Ok(()) => 0,
        Err(SignalError::Handle(HandleError::Stale)) => Error::BadHandle as u64,
        Err(_) => u64::MAX,
    }
}

fn revoke_code(result: Result<(), RevokeError>) -> u64 {
    match result {
        Ok(()) => 0,
        Err(RevokeError::Handle(HandleError::Stale)) => Error::BadHandle as u64,
        Err(_) => u64::MAX,
    }
}
