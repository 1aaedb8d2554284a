//! CAN buses: their frames, and the tasks that send and read them.
//!
//! Nothing of a bus is packed, and no bound of a task depends on one. Only the analysis looks at them (`admission::buses`).

use std::collections::BTreeMap;
use std::ops::Range;

use fusee_abi::image::{class, release};
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::can::{self, Identifier, Rates};
use toml::Spanned;

use super::{
    Fail::{self, At},
    Of, Resolver, span,
};
use crate::error::Reason;
use crate::quantity::Time;
use crate::schema;

/// A CAN bus.
#[derive(Clone, Debug)]
pub struct Bus {
    /// The name of the bus.
    pub name: String,
    /// The rates of the bus.
    pub rates: Rates,
    /// The least time between two faults; `None`: there are none.
    pub fault_interval: Option<Nanoseconds>,
    /// The frames of the bus, by whichever nodes.
    pub frames: Vec<BusFrame>,
    /// The place of the bus in the file.
    pub(super) place: Range<usize>,
}

/// A frame of a bus.
#[derive(Clone, Debug)]
pub struct BusFrame {
    /// The name of the frame.
    pub name: String,
    /// The frame. Its jitter is the time from the end of the sender's job, if there is one, and otherwise from the event.
    pub frame: can::Frame,
    /// The task that sends it in its jobs, if it is one of the system.
    pub sender: Option<usize>,
    /// The task that reads it in each of its jobs.
    pub to: Option<usize>,
    /// The place of the frame in the file.
    pub(super) place: Range<usize>,
}

impl Resolver<'_> {
    pub(super) fn buses(&mut self) {
        let file = self.file;
        self.limit(&file.buses, "buses", usize::MAX, 24, |_| Of::Nothing);
        for (name, bus) in &file.buses.0 {
            self.limit(&bus.frames, "frames", usize::MAX, 24, |_| Of::Nothing);
            let rates = rates(name, bus);
            let rates = self.keep(Of::Nothing, rates);
            let fault_interval = positive("fault_interval", &bus.fault_interval, name);
            let fault_interval = self.keep(Of::Nothing, fault_interval).flatten();
            let mut taken = BTreeMap::new();
            let mut frames = Vec::new();
            for (frame, keys) in &bus.frames.0 {
                let found =
                    self.frame(frame, keys).and_then(|found| match taken.insert(found.frame.identifier, frame) {
                        Some(by) => {
                            let (of, by) = (frame.get_ref().clone(), by.get_ref().clone());
                            Err(At(keys.identifier.span(), Reason::PlaceTaken { what: "identifier", of, by }))
                        }
                        None => Ok(found),
                    });
                frames.extend(self.keep(Of::Nothing, found));
            }
            let (name, place) = (name.get_ref().clone(), name.span());
            self.out.buses.extend(rates.map(|rates| Bus { name, rates, fault_interval, frames, place }));
        }
    }

    fn frame(&self, name: &Spanned<String>, keys: &schema::BusFrame) -> Result<BusFrame, Fail> {
        let of = || name.get_ref().clone();
        let sender = self.with_jobs("sender", &keys.sender, name)?;
        let to = self.with_jobs("to", &keys.to, name)?;
        if let (Some(task), Some(key)) = (to, &keys.to)
            && self.period_of(task).is_none_or(|(_, is_by_clock)| !is_by_clock)
        {
            let needs = "a task that the clock releases: it reads the frame in its next job";
            return Err(At(key.span(), Reason::Needs { what: "to", of: of(), needs }));
        }
        let own = positive("period", &keys.period, name)?;
        let least = sender.and_then(|task| Some(self.period_of(task)?.0));
        let period = own.or(least).ok_or_else(|| At(name.span(), Reason::MissingKey("period".to_owned())))?;
        if let (Some(least), Some(sender), Some(key)) = (least.filter(|least| period < *least), sender, &keys.period) {
            let (sender, least) = (self.out.tasks[sender].name.clone(), Time(least.0));
            let reason = Reason::FrameTooOften { frame: of(), period: *key.get_ref(), sender, least };
            return Err(At(key.span(), reason));
        }
        let number = *keys.identifier.get_ref();
        let frame = can::Frame {
            identifier: if keys.extended { Identifier::Extended(number) } else { Identifier::Standard(number) },
            bytes: u32::try_from(keys.bytes.get_ref().0).unwrap_or(u32::MAX),
            is_fd: keys.fd,
            period,
            jitter: Some(span("jitter", &keys.jitter, name)?),
            deadline: positive("deadline", &keys.deadline, name)?.unwrap_or(period),
        };
        frame.check().map_err(|why| {
            let place = match why {
                can::Nonsense::Bytes { .. } => keys.bytes.span(),
                can::Nonsense::Identifier(_) => keys.identifier.span(),
                _ => name.span(),
            };
            At(place, Reason::BadFrame { frame: of(), why })
        })?;
        Ok(BusFrame { name: of(), frame, sender, to, place: name.span() })
    }

    /// The task that `key` names, which must have jobs.
    fn with_jobs(
        &self,
        what: &'static str,
        key: &Option<Spanned<String>>,
        frame: &Spanned<String>,
    ) -> Result<Option<usize>, Fail> {
        let Some(key) = key else { return Ok(None) };
        let task = self.task(key)?;
        self.sound(Of::Task(task))?;
        match self.period_of(task) {
            Some(_) => Ok(Some(task)),
            None => Err(At(key.span(), Reason::Needs { what, of: frame.get_ref().clone(), needs: "a real-time task" })),
        }
    }

    /// The period of a real-time task, and whether the clock releases its jobs.
    fn period_of(&self, task: usize) -> Option<(Nanoseconds, bool)> {
        let own = &self.out.reservations[self.out.tasks[task].reservation?];
        (own.class == class::REAL_TIME).then_some((Nanoseconds(own.period), own.release == release::PERIODIC))
    }
}

fn rates(name: &Spanned<String>, bus: &schema::Bus) -> Result<Rates, Fail> {
    let (bit_rate, data_rate) = (&bus.bit_rate, bus.data_rate.as_ref());
    Rates::new(*bit_rate.get_ref(), data_rate.map(|rate| *rate.get_ref())).map_err(|why| {
        let place = match why {
            can::Nonsense::DataRate { .. } => data_rate.map_or(bit_rate.span(), Spanned::span),
            _ => bit_rate.span(),
        };
        At(place, Reason::BadBus { bus: name.get_ref().clone(), why })
    })
}

/// A time that is not zero, if there is one.
fn positive(
    what: &'static str,
    key: &Option<Spanned<Time>>,
    name: &Spanned<String>,
) -> Result<Option<Nanoseconds>, Fail> {
    let time = span(what, key, name)?;
    match key {
        Some(key) if time == Nanoseconds::ZERO => {
            Err(At(key.span(), Reason::Zero { what, of: name.get_ref().clone() }))
        }
        key => Ok(key.as_ref().map(|_| time)),
    }
}
