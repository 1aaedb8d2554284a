//! The keys of manifests, as the types have them.

use fusee_campaigns::keys::{Key, Kind, keys, used};

#[test]
fn keys_are_those_that_the_types_read_with_the_values_of_enums_and_rights_and_steps() {
    let all = keys();
    for key in [
        "system.admission=warn",
        "tasks.*.period",
        "tasks.*.restart=always",
        "tasks.*.restart.start_within",
        "tasks.*.uses.*.operation",
        "tasks.*.uses.*.operation.kernel",
        "graphs.*.objects.*.readers.*.history",
        "pools.*.limit",
        "pools.*.limit=ck-omlp",
        "endpoint: inside",
        "step: early_release",
    ] {
        assert!(all.contains_key(key), "{key} is not among {all:#?}");
    }
    assert_eq!(all["tasks.*.restart.start_within"], Key { value: Kind::Time, lists: 0 });
    assert_eq!(all["system.distance"], Key { value: Kind::Number, lists: 2 });
    assert_eq!(all["devices.*.copy_engines"], Key { value: Kind::Number, lists: 0 });
    // Fields that no manifest has are skipped by the types.
    assert!(!all.keys().any(|key| key.ends_with("time_table") || key.ends_with("measures")));
}

#[test]
fn no_type_reads_one_of_several_things_that_nobody_names() {
    let unnamed: Vec<String> = keys().into_keys().filter(|key| key.ends_with("=?")).collect();
    assert!(unnamed.is_empty(), "add to `alternatives` what {unnamed:?} may be");
}

#[test]
fn a_manifest_uses_the_keys_that_it_has() {
    let text = "[system]\nname = \"x\"\n[tasks.a]\nclass = \"service\"\nscript = [\"burn 1ms\", \"dance\"]\n\
                handles.e = \"endpoint e: call grant\"\nrestart = { at_most = 1 }\nunknown = 1\n";
    let found: Vec<String> = used(&text.parse().unwrap(), &keys()).into_iter().collect();
    let wanted = [
        "endpoint: call",
        "endpoint: grant",
        "step: burn",
        "system.name",
        "tasks.*.class=service",
        "tasks.*.handles.*",
        "tasks.*.restart.at_most",
        "tasks.*.script",
    ];
    assert_eq!(found, wanted);
}
