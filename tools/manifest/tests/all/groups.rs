//! Groups of clients without a lock: the table of their sharer, and refusals.

use std::path::Path;

use fusee_manifest::Manifest;
use fusee_sharing::Told;

/// Ada has a half, bob and cyd a third and two thirds of a half of the share of `media`, and `director` may suspend `media`.
const GOOD: &str = include_str!("groups.toml");

fn parse(text: &str) -> Result<Manifest, String> {
    Manifest::parse(Path::new("m.toml"), text).map_err(|error| error.to_string())
}

/// The mistakes after `from` is replaced by `to`.
#[track_caller]
fn refused(from: &str, to: &str, expected: &str) {
    assert!(GOOD.contains(from), "the good manifest has no `{from}`");
    match parse(&GOOD.replacen(from, to, 1)) {
        Ok(_) => panic!("`{to}` is accepted"),
        Err(error) => {
            let line = GOOD.lines().position(|line| line.contains(from)).unwrap() + 1;
            assert_eq!(error, expected.replace("LINE", &line.to_string()));
        }
    }
}

/// The groups and members in the environment of the task `name`.
fn told(manifest: &Manifest, name: &str) -> Vec<(String, u64)> {
    let task = manifest.system.tasks.iter().find(|task| task.name == name).unwrap();
    let entries = task.environment.iter().filter(|entry| {
        entry.kind == fusee_abi::environment::kind::PARAMETER
            && (entry.name.starts_with("group.") || entry.name.starts_with("member."))
    });
    entries.map(|entry| (entry.name.clone(), entry.address)).collect()
}

#[test]
fn a_sharer_is_told_of_groups_and_members_and_a_manager_of_its_group() {
    let manifest = parse(GOOD).unwrap();
    let word = |number, group, weight, badge| Told { number, group, weight, managed: false, badge }.encode();
    let entry = |name: &str, word| (name.to_owned(), word);
    let expected = [
        entry("member.ada", word(0, 0, 4, 1)),
        entry("member.bob", word(1, 2, 1, 2)),
        entry("member.cyd", word(2, 2, 2, 3)),
        // The parent stands behind it in the file, and has a lower number.
        entry("group.sound", word(2, 1, 1, 0)),
        entry("group.media", word(1, 0, 4, 4)),
    ];
    assert_eq!(told(&manifest, "sharer"), expected);
    assert_eq!(told(&manifest, "director"), [entry("group.media", 1)]);
}

#[test]
fn a_task_with_several_contexts_is_one_client() {
    let word = |number, group, weight, badge| Told { number, group, weight, managed: false, badge }.encode();
    let entry = |name: &str, word| (name.to_owned(), word);
    let twice = |handle: &str, shares: &str| {
        let text = GOOD.replacen("handles = { ee = \"engine ee: share\" }", &format!("handles = {{ {handle} }}"), 1);
        told(&parse(&text.replacen("shares.ee = { weight = 4 }", shares, 1)).unwrap(), "sharer")
    };
    let both = "ee = \"engine ee: share\", more = \"engine ee: share\"";
    // It has the largest weight that is said of its contexts, and each of these the weight that is said of it.
    let found = twice(both, "shares.ee = { weight = 4 }");
    for expected in [
        entry("group.ada", word(3, 0, 4, 0)),
        entry("member.ada", word(0, 3, 4, 1)),
        entry("member.ada.2", word(1, 3, 1, 1)),
        entry("member.bob", word(2, 2, 1, 2)),
    ] {
        assert!(found.contains(&expected), "{expected:?} in {found:?}");
    }
    // In a group it is one client of that; in two it is one of each.
    let found = twice(both, "shares.ee = { group = \"media\" }\nshares.more = { group = \"media\", weight = 2 }");
    assert!(found.contains(&entry("group.ada", word(3, 1, 2, 0))), "{found:?}");
    let found = twice(both, "shares.ee = { group = \"media\" }");
    assert!(!found.iter().any(|(name, _)| name == "group.ada"), "{found:?}");
    // Even where nothing else is said of any client.
    let text = plain().replacen("handles = { ee = \"engine ee: share\" }", &format!("handles = {{ {both} }}"), 1);
    let found = told(&parse(&text).unwrap(), "sharer");
    assert!(found.contains(&entry("group.ada", word(1, 0, 1, 0))) && found.len() == 5, "{found:?}");
}

/// A system like [`GOOD`], without a word about its clients.
fn plain() -> String {
    let (mut text, mut skips) = (String::new(), false);
    for line in GOOD.lines() {
        skips = line.starts_with("[groups.") || skips && !line.starts_with('[');
        if !skips && !line.starts_with("shares") {
            text += line;
            text.push('\n');
        }
    }
    text
}

#[test]
fn nothing_is_told_of_clients_of_which_nothing_is_said() {
    let text = plain();
    assert_eq!(told(&parse(&text).unwrap(), "sharer"), []);
    // Unless it may stop one.
    let receives = "requests = \"endpoint requests: receive\"";
    let text = text.replacen(receives, &format!("{receives}, \"stop.bob\" = \"task bob: stop\""), 1);
    let word = |number, badge| Told { number, group: 0, weight: 1, managed: false, badge }.encode();
    let expected = [("member.ada", word(0, 1)), ("member.bob", word(1, 2)), ("member.cyd", word(2, 3))];
    assert_eq!(told(&parse(&text).unwrap(), "sharer"), expected.map(|(name, word)| (name.to_owned(), word)));
}

#[test]
fn groups_are_of_an_engine_with_a_sharer() {
    refused("engine = \"ee\" # of sound", "engine = \"e\"", "m.toml:LINE: no engine is called `e`; did you mean `ee`?");
    let text = GOOD.replacen("sharer = \"requests\"\n", "", 1);
    let error = parse(&text).unwrap_err();
    let line = |what: &str| text.lines().position(|line| line.contains(what)).unwrap() + 1;
    assert!(
        error.contains(&format!("m.toml:{}: group of `sound` needs an engine with a `sharer`", line("[groups.sound]"))),
        "{error}"
    );
    assert!(
        error.contains(&format!("m.toml:{}: shares of `ee` needs an engine with a `sharer`", line("weight = 4"))),
        "{error}"
    );
}

#[test]
fn parents_and_groups_are_those_of_the_engine() {
    let choices = "there are `sound` and `media`";
    refused(
        "parent = \"media\"",
        "parent = \"medea\"",
        "m.toml:LINE: no group of this engine is called `medea`; did you mean `media`?",
    );
    refused(
        "group = \"sound\", weight = 2",
        "group = \"video\"",
        &format!("m.toml:LINE: no group of this engine is called `video`; {choices}"),
    );
    refused(
        "parent = \"media\"",
        "parent = \"sound\"",
        &format!("m.toml:{}: group `sound` is a part of itself: follow its `parent`", line_of("[groups.sound]")),
    );
}

fn line_of(what: &str) -> usize {
    GOOD.lines().position(|line| line.contains(what)).unwrap() + 1
}

#[test]
fn a_tree_has_four_levels_and_fifteen_groups() {
    let chain = |depth: usize| -> String {
        (0..depth)
            .map(|level| {
                let parent = if level == 0 { String::new() } else { format!("parent = \"g{}\"\n", level - 1) };
                format!("[groups.g{level}]\nengine = \"ee\"\n{parent}\n")
            })
            .collect()
    };
    let with = |groups: &str, ada: &str| {
        GOOD.replacen("shares.ee = { weight = 4 }", &format!("shares.ee = {{ group = \"{ada}\" }}"), 1) + groups
    };
    parse(&with(&chain(3), "g2")).unwrap();
    let text = with(&chain(4), "g3");
    let line = text.lines().position(|line| line == "[groups.g3]").unwrap() + 1;
    assert_eq!(
        parse(&text).unwrap_err(),
        format!("m.toml:{line}: clients of group `g3` would stand on level 5 of a tree that has 4")
    );
    // With the two that there are: fifteen fit, and sixteen do not.
    let many = |count: usize| -> String {
        (0..count).map(|number| format!("[groups.m{number}]\nengine = \"ee\"\n")).collect()
    };
    let text = with(&many(14), "m0");
    let error = parse(&text).unwrap_err();
    assert!(error.contains("engine `ee` has more than 15 groups"), "{error}");
    let error = parse(&with(&many(13), "m0")).unwrap_err();
    assert!(!error.contains("more than"), "{error}");
}

#[test]
fn a_group_has_clients_or_a_group_below_has() {
    let text = GOOD.replacen("shares.ee = { group = \"sound\" }\n", "", 1);
    parse(&text).unwrap();
    let text = text.replacen("{ group = \"sound\", weight = 2 }", "{ weight = 2 }", 1);
    let error = parse(&text).unwrap_err();
    let needs = "needs a client: a task whose `shares` name it";
    let line = |what: &str| text.lines().position(|line| line.contains(what)).unwrap() + 1;
    let [sound, media] = [line("[groups.sound]"), line("[groups.media]")];
    assert_eq!(
        error,
        format!("m.toml:{sound}: group of `sound` {needs}\nm.toml:{media}: group of `media` {needs}\n2 mistakes")
    );
}

#[test]
fn weights_are_in_their_range() {
    for wrong in ["0", "1025", "70000"] {
        refused(
            "{ weight = 4 }",
            &format!("{{ weight = {wrong} }}"),
            "m.toml:LINE: weight of `ee` is not from 1 to 1024",
        );
        refused(
            "weight = 4 # of media",
            &format!("weight = {wrong}"),
            "m.toml:LINE: weight of `media` is not from 1 to 1024",
        );
    }
}

#[test]
fn a_client_says_where_it_stands_by_a_handle_that_it_has() {
    refused(
        "shares.ee = { weight = 4 }",
        "shares.e = { weight = 4 }",
        "m.toml:LINE: task `ada` has no handle `e` to an engine with the right `share`",
    );
}

#[test]
fn a_group_is_left_to_the_manager_that_it_has() {
    let manager = "manager = \"director\"";
    let managed = format!("{manager}\nwithin = \"manager\"");
    let of_sharer = |text: &str| {
        let told = told(&parse(text).unwrap(), "sharer");
        told.into_iter().filter(|(_, word)| Told::decode(*word).managed).map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(of_sharer(&GOOD.replacen(manager, &managed, 1)), ["group.media"]);
    assert_eq!(
        of_sharer(&GOOD.replacen(manager, &managed.replace("within = \"manager\"", "within = \"sharer\""), 1)),
        Vec::<String>::new()
    );
    let expected = "m.toml:LINE: `within = \"manager\"` of `media` needs a `manager`";
    refused(manager, "within = \"manager\"", expected);
}

#[test]
fn a_manager_may_call_the_sharer() {
    refused(
        "manager = \"director\"",
        "manager = \"directer\"",
        "m.toml:LINE: no task is called `directer`; did you mean `director`?",
    );
    refused(
        "manager = \"director\"",
        "manager = \"ada\"",
        "m.toml:LINE: manager of `media` needs a task that may call the endpoint of the engine's sharer",
    );
}
