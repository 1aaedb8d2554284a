//! The published schemas of `--json`, for tests.

use fusee_host::system::root;

/// The differences of a document from a published schema.
pub fn problems(schema: &str, document: &serde_json::Value) -> Vec<String> {
    let text = std::fs::read_to_string(root().unwrap().join("docs/schema").join(schema)).unwrap();
    let schema: serde_json::Value = serde_json::from_str(&text).unwrap();
    let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
    compiler.add_resource("http://fusee/schema.json", schema).unwrap();
    let index = compiler.compile("http://fusee/schema.json", &mut schemas).unwrap();
    schemas.validate(document, index).err().map(|error| error.to_string()).into_iter().collect()
}

#[test]
fn a_document_that_is_no_answer_does_not_pass() {
    assert!(!problems("run.json", &serde_json::json!({ "name": 3 })).is_empty());
    assert!(!problems("analyze.json", &serde_json::json!([{}])).is_empty());
}
