//! A server: answers each sample of a client with the mean of the client's last four.
//!
//! Handle: endpoint "filter" (receive). Request: the sample in word 0. Reply: the mean in word 0.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::{Server, environment};

fusee::entry!(main);

fn main() {
    let mut last = Last::default();
    // Receives a request, answers it with the words that the closure returns, and receives the next. The badge says which client asks: a server
    // with several clients keeps something for each.
    Server::new(environment().expect("filter")).run(|_badge, words| [last.mean(words[0]), 0, 0, 0, 0, 0])
}

/// The last four samples.
#[derive(Default)]
struct Last([u32; 4]);

impl Last {
    /// Takes one more. Words of a client are any numbers: this takes no more than it can add up.
    fn mean(&mut self, sample: u64) -> u64 {
        self.0.rotate_left(1);
        self.0[3] = u32::try_from(sample).unwrap_or(u32::MAX);
        self.0.iter().map(|sample| u64::from(*sample)).sum::<u64>() / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_is_of_the_last_four_samples_whatever_a_client_sends() {
        let mut last = Last::default();
        let means: Vec<u64> = [4, 8, 12, 16, 20].map(|sample| last.mean(sample)).into();
        assert_eq!(means, [1, 3, 6, 10, 14]);
        assert_eq!(last.mean(u64::MAX), (12 + 16 + 20 + u64::from(u32::MAX)) / 4);
    }
}
