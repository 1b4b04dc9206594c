//! Damage to a label index is found, or does not matter.

use super::labels::{random_streams, select};
use super::model::*;
use crate::*;
use logsvc_logql::engine::CompiledMatcher;
use logsvc_logql::syntax::ast::{MatchOp, Matcher, Text};
use logsvc_testkit::{Rng, SeedGuard, seeds};

fn matcher(name: &str, op: MatchOp, value: &str) -> CompiledMatcher {
    CompiledMatcher::new(&Matcher { name: name.into(), op, value: Text::from(value) }).unwrap()
}

#[test]
fn a_changed_byte_gives_an_error_or_is_not_read() {
    for seed in seeds(10) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let streams = random_streams(&mut rng, 1500);
        let mut file = write(&streams, &mut rng);
        let footer = *open(&file).unwrap().footer();
        let (all, root) =
            (footer.label_index_range().unwrap(), footer.label_index_root_range().unwrap());
        let index = open_labels(&file).unwrap().unwrap();
        let is = matcher("app", MatchOp::Equal, "web");
        let like = matcher("pod", MatchOp::Regex, "ingester-[0-3].*");
        let right = select(&file, &index, "a", &[&is, &like]).unwrap();
        let (mut refused, mut unread) = (0, 0);
        for _ in 0..300 {
            let at = rng.between(all.start, root.start - 1) as usize;
            let byte = std::mem::replace(&mut file[at], 0);
            file[at] = byte ^ 1 << rng.below(8);
            match select(&file, &index, "a", &[&is, &like]) {
                Ok(found) => {
                    assert_eq!(found, right);
                    unread += 1;
                }
                Err(error) => {
                    assert_eq!(error.part, Part::LabelIndex);
                    refused += 1;
                }
            }
            file[at] = byte;
        }
        assert!(refused > 0 && unread > 0, "{refused} {unread}");
    }
}
