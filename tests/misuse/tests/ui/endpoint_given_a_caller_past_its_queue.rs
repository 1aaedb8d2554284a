//! A thread queues at an endpoint while its state says so.

use fusee_kernel_core::object::Endpoint;

fn endpoint_given_a_caller_past_its_queue(endpoint: &mut Endpoint) {
    endpoint.callers.clear();
}

fn main() {}
