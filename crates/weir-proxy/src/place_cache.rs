//! One loop's copy of a cluster's directory: an answer that names brokers as they were needs no lock.

use std::collections::HashMap;
use std::sync::Arc;

use crate::directory::Directory;
use crate::wire::{Node, Place, Places};

/// The most brokers a copy holds; a cluster has fewer.
const MOST: usize = 10_000;

/// Places by broker.
#[derive(Debug)]
pub(crate) struct PlaceCache {
    directory: Arc<Directory>,
    version: u64,
    known: HashMap<i32, Known>,
}

#[derive(Debug)]
struct Known {
    host: Box<str>,
    port: u16,
    place: Place,
}

impl PlaceCache {
    pub(crate) fn new(directory: Arc<Directory>) -> Self {
        Self {
            directory,
            version: 0,
            known: HashMap::new(),
        }
    }
}

impl Places for PlaceCache {
    fn place(&mut self, node: Node<'_>) -> Option<Place> {
        let version = self.directory.version();
        if version != self.version || self.known.len() > MOST {
            self.version = version;
            self.known.clear();
        }
        if let Some(known) = self.known.get(&node.id) {
            if known.port == node.port && &*known.host == node.host {
                return Some(known.place.clone());
            }
        }
        let place = self.directory.learn(node, false)?;
        let known = Known {
            host: node.host.into(),
            port: node.port,
            place: place.clone(),
        };
        self.known.insert(node.id, known);
        Some(place)
    }
}
