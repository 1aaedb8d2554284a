//! A reservation has a runner exactly while it is queued or linked.

use fusee_kernel_core::object::Reservation;

fn reservation_given_a_runner_past_the_links(reservation: &mut Reservation) {
    reservation.runner = None;
}

fn main() {}
