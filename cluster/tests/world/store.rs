//! The bucket of the world, and what its objects mean. Requests take effect when they arrive; what
//! happens to requests and answers on their way is the business of `env`.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use logsvc_cluster::map::{Ends, Epoch, Partition};

/// One stored copy of an entry: a push that is repeated makes another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Copy {
    pub(crate) id: u64,
    pub(crate) partition: Partition,
    /// The write-ahead log, the object, the place in it.
    pub(crate) at: (Epoch, u64, u32),
}

#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) id: u64,
    pub(crate) partition: Partition,
    pub(crate) copies: Vec<Copy>,
}

/// An edit of the log of a writer.
#[derive(Clone, Default, Debug)]
pub(crate) struct Edit {
    pub(crate) adds: Vec<Rc<Segment>>,
    pub(crate) removes: Vec<u64>,
    /// All of a partition in the own write-ahead log before this object is in live segments.
    pub(crate) covers: Vec<(Partition, u64)>,
    /// All of a partition in the write-ahead log of this writer is in live segments.
    pub(crate) settled: Vec<(Partition, Epoch)>,
    /// The first object of the own write-ahead log that is needed.
    pub(crate) wal_from: u64,
    /// Tells this edit from others.
    pub(crate) tag: u64,
    /// The partition that it is of.
    pub(crate) partition: Option<Partition>,
    pub(crate) is_seal: bool,
    pub(crate) adopted: BTreeSet<Epoch>,
}

pub(crate) enum LogObject {
    Edit(Rc<Edit>),
    Fence,
}

pub(crate) enum WalObject {
    Entries(Rc<Vec<Copy>>),
    Fence,
}

/// What a create of an object of a writer's log has come to, after a look at what is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Put {
    Created,
    Mine,
    Fenced,
    Unknown,
}

#[derive(Default)]
pub(crate) struct Store {
    pub(crate) maps: Vec<Rc<Vec<u8>>>,
    pub(crate) logs: BTreeMap<Epoch, Vec<LogObject>>,
    pub(crate) wals: BTreeMap<Epoch, BTreeMap<u64, WalObject>>,
}

impl Store {
    /// Numbers of maps count from 1.
    pub(crate) fn map(&self, number: u64) -> Option<&Rc<Vec<u8>>> {
        self.maps.get(number.checked_sub(1)? as usize)
    }

    pub(crate) fn create_map(&mut self, number: u64, bytes: &Rc<Vec<u8>>) -> Result<bool, String> {
        let next = self.maps.len() as u64 + 1;
        if number > next {
            return Err(format!("map {number} was created before map {next}"));
        }
        if number == next {
            self.maps.push(Rc::clone(bytes));
        }
        Ok(number == next)
    }

    pub(crate) fn create_edit(&mut self, of: Epoch, number: u64, edit: &Rc<Edit>) -> Put {
        let log = self.logs.entry(of).or_default();
        match log.get(number as usize) {
            Some(LogObject::Fence) => Put::Fenced,
            Some(LogObject::Edit(there)) if there.tag == edit.tag => Put::Mine,
            Some(LogObject::Edit(_)) => unreachable!("one writer, one edit of a number"),
            // Behind a fence, or by a request that was very late: it does not count.
            None if number as usize > log.len() => Put::Fenced,
            None => {
                log.push(LogObject::Edit(Rc::clone(edit)));
                Put::Created
            }
        }
    }

    pub(crate) fn create_wal(&mut self, of: Epoch, number: u64, copies: &Rc<Vec<Copy>>) -> Put {
        let wal = self.wals.entry(of).or_default();
        match wal.get(&number) {
            Some(WalObject::Fence) => Put::Fenced,
            Some(WalObject::Entries(_)) => Put::Mine,
            None => {
                wal.insert(number, WalObject::Entries(Rc::clone(copies)));
                Put::Created
            }
        }
    }

    /// Whether a log of edits is fenced. Its writer may not know yet.
    pub(crate) fn is_fenced(&self, of: Epoch) -> bool {
        let log = self.logs.get(&of);
        log.is_some_and(|log| matches!(log.last(), Some(LogObject::Fence)))
    }

    /// Fences a log of edits. Whether it was fenced already.
    pub(crate) fn fence_log(&mut self, of: Epoch) -> bool {
        let log = self.logs.entry(of).or_default();
        let is_fenced = matches!(log.last(), Some(LogObject::Fence));
        if !is_fenced {
            log.push(LogObject::Fence);
        }
        is_fenced
    }

    /// Fences a write-ahead log whose log of edits is fenced.
    pub(crate) fn fence_wal(&mut self, of: Epoch) -> Ends {
        let log = self.edits(of, u64::MAX).len() as u64;
        let mut number = self.wal_from(of);
        let wal = self.wals.entry(of).or_default();
        while let Some(WalObject::Entries(_)) = wal.get(&number) {
            number += 1;
        }
        wal.insert(number, WalObject::Fence);
        Ends { log, wal: number }
    }

    /// Where the logs of a writer end now, without a fence.
    pub(crate) fn ends_without_fence(&self, of: Epoch) -> Ends {
        let wal = self.wals.get(&of).and_then(|wal| wal.last_key_value());
        Ends {
            log: self.edits(of, u64::MAX).len() as u64,
            wal: wal.map_or(0, |(last, _)| last + 1),
        }
    }

    pub(crate) fn edits(&self, of: Epoch, position: u64) -> Vec<&Rc<Edit>> {
        let log = self.logs.get(&of).map_or(&[][..], Vec::as_slice);
        let edits = log.iter().take(position.min(log.len() as u64) as usize);
        edits
            .map_while(|object| match object {
                LogObject::Edit(edit) => Some(edit),
                LogObject::Fence => None,
            })
            .collect()
    }

    fn wal_from(&self, of: Epoch) -> u64 {
        self.edits(of, u64::MAX).last().map_or(0, |edit| edit.wal_from)
    }

    /// The live segments of a partition.
    pub(crate) fn fold(
        &self,
        partition: Partition,
        positions: &BTreeMap<Epoch, u64>,
    ) -> Result<Vec<Rc<Segment>>, String> {
        let mut adds: BTreeMap<u64, &Rc<Segment>> = BTreeMap::new();
        let mut removes: BTreeSet<u64> = BTreeSet::new();
        for (epoch, position) in positions {
            let edits = self.edits(*epoch, *position);
            if (edits.len() as u64) < *position {
                return Err(format!("the log {epoch} has no {position} edits"));
            }
            for edit in edits {
                let adds_here = edit.adds.iter().filter(|it| it.partition == partition);
                adds.extend(adds_here.map(|segment| (segment.id, segment)));
                removes.extend(&edit.removes);
            }
        }
        Ok(adds
            .into_iter()
            .filter(|(id, _)| !removes.contains(id))
            .map(|(_, s)| Rc::clone(s))
            .collect())
    }

    /// What the write-ahead logs of ended writers have of a partition that is in no segment.
    pub(crate) fn replay(
        &self,
        partition: Partition,
        from: &BTreeMap<Epoch, Ends>,
    ) -> Result<Vec<Copy>, String> {
        let mut copies = Vec::new();
        let edits: Vec<(Epoch, &Rc<Edit>)> = from
            .iter()
            .flat_map(|(epoch, ends)| {
                self.edits(*epoch, ends.log).into_iter().map(|edit| (*epoch, edit))
            })
            .collect();
        for (epoch, ends) in from {
            if edits.iter().any(|(_, edit)| edit.settled.contains(&(partition, *epoch))) {
                continue;
            }
            let own = edits.iter().filter(|(of, _)| of == epoch);
            let covers = own.flat_map(|(_, edit)| &edit.covers);
            let cover = covers.filter(|(of, _)| *of == partition).map(|(_, to)| *to).max();
            for number in cover.unwrap_or(0).max(self.wal_from(*epoch))..ends.wal {
                match self.wals.get(epoch).and_then(|wal| wal.get(&number)) {
                    Some(WalObject::Entries(there)) => {
                        copies.extend(there.iter().filter(|copy| copy.partition == partition));
                    }
                    _ => return Err(format!("the object {number} of wal/{epoch} is missing")),
                }
            }
        }
        Ok(copies)
    }

    pub(crate) fn remove_wal(&mut self, of: Epoch, before: u64) {
        if let Some(wal) = self.wals.get_mut(&of) {
            wal.retain(|number, object| *number >= before || matches!(object, WalObject::Fence));
        }
    }

    /// What an edit has to say so that these logs are not needed any more.
    pub(crate) fn adoption(&self, ends: &BTreeMap<Epoch, Ends>) -> Edit {
        let mut sum = Edit { adopted: ends.keys().copied().collect(), ..Edit::default() };
        for (epoch, ends) in ends {
            for edit in self.edits(*epoch, ends.log) {
                sum.adds.extend(edit.adds.iter().cloned());
                sum.removes.extend(&edit.removes);
            }
        }
        sum
    }
}
