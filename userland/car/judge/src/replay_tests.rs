use super::*;

const BEGIN: u64 = 10_000_000;
const STEPS: u32 = 400;
/// Steps from a picture until the controller has its lane.
const LATE: u32 = 8;

/// The record of a board that does all in its time.
fn record() -> Record {
    let (mut world, mut driver, mut seen) = (World::default(), Driver::default(), Box::new(Seen::default()));
    let (mut senses, mut held, mut picture) = (Senses::default(), [0; 8], vec![0; PIXELS]);
    let (mut commands, mut lanes, mut steps) = (Vec::new(), BTreeMap::new(), Vec::new());
    for number in 1..=STEPS {
        let at = BEGIN + u64::from(number - 1) * PERIOD;
        world.step(command_of(held).0);
        commands.push(held);
        let [wheels, yaw] = world.senses();
        if world.is_picture() {
            let view = View::of(&world.car, OBSTACLE, number);
            for (y, row) in picture.as_chunks_mut::<WIDTH>().0.iter_mut().enumerate() {
                view.row(y, row);
            }
            let words = seen.look(picture.first_chunk().unwrap());
            lanes.insert(number, Lane { at: at + u64::from(LATE) * PERIOD, words });
        }
        senses.take_wheels(wheels);
        senses.take_yaw(yaw);
        let lane = number.checked_sub(LATE).and_then(|taken| Some((taken, lanes.get(&taken)?)));
        let instant = |taken: u32| BEGIN + u64::from(taken - 1) * PERIOD;
        let sight = lane.map(|(taken, lane)| Sight { at: instant(taken), words: lane.words });
        held = command(driver.step(at, &senses, sight.as_ref()), number);
        steps.push(Step { at, picture: lane.map_or(0, |(taken, _)| taken), wheels, yaw, command: held });
    }
    Record { result: world.result, room: world.room(), begin: BEGIN, commands, lanes, steps }
}

#[test]
fn a_right_record_is_right_and_has_its_times() {
    let replay = Replay::of(&record());
    assert!(replay.is_equal() && replay.equal_senses == STEPS as usize, "{replay:?}");
    assert_eq!((replay.to_lane, replay.to_wheels), (u64::from(LATE) * PERIOD, u64::from(LATE) * PERIOD));
    assert!(replay.is_complete(50_000_000));
}

/// A car that moves otherwise, a lane of another picture, a controller that knows more, and data that the car has not sent: each is found.
#[test]
fn each_wrong_entry_is_found() {
    let right = record();
    let wrong = |change: &dyn Fn(&mut Record)| {
        let mut record = right.clone();
        change(&mut record);
        Replay::of(&record)
    };
    assert!(!wrong(&|record| record.commands[300][0] ^= 1).is_result_equal);
    assert!(!wrong(&|record| record.result.worst += 1e-9).is_equal());
    assert!(!wrong(&|record| record.lanes.get_mut(&60).unwrap().words[1] += 1).is_equal());
    assert!(!wrong(&|record| record.steps[200].command[0] ^= 1).is_equal());
    assert!(wrong(&|record| record.steps[200].yaw[0] ^= 1).equal_senses < STEPS as usize);
    assert!(!wrong(&|record| record.lanes.retain(|number, _| *number < 300)).is_complete(50_000_000));
}
