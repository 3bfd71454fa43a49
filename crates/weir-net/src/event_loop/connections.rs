//! Connections of an event loop.

use slab::Slab;

/// Identifier of a connection of one event loop; ids of closed connections are not reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnId {
    index: u32,
    generation: u32,
}

impl ConnId {
    /// Creates an id from its parts, for handlers that run without an event loop.
    pub const fn from_parts(index: u32, generation: u32) -> Self {
        Self { index, generation }
    }

    /// Returns the position of the connection, which a later connection may get.
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

/// Connections by id and by position. Sockets are registered with their position.
#[derive(Debug)]
pub struct Connections<C> {
    slab: Slab<(u32, C)>,
    generation: u32,
}

impl<C> Default for Connections<C> {
    fn default() -> Self {
        Self {
            slab: Slab::new(),
            generation: 0,
        }
    }
}

impl<C> Connections<C> {
    /// Returns the id that [`Self::insert`] will return.
    pub fn next_id(&self) -> ConnId {
        ConnId {
            index: self.slab.vacant_key() as u32,
            generation: self.generation.wrapping_add(1),
        }
    }

    /// Adds a connection.
    pub fn insert(&mut self, connection: C) -> ConnId {
        let id = self.next_id();
        self.generation = id.generation;
        self.slab.insert((id.generation, connection));
        id
    }

    /// Returns a connection that is not removed.
    pub fn get_mut(&mut self, id: ConnId) -> Option<&mut C> {
        match self.slab.get_mut(id.index()) {
            Some((generation, connection)) if *generation == id.generation => Some(connection),
            _ => None,
        }
    }

    /// Returns the connection at a position, with its id.
    pub fn at(&mut self, index: usize) -> Option<(ConnId, &mut C)> {
        let (generation, connection) = self.slab.get_mut(index)?;
        let id = ConnId::from_parts(index as u32, *generation);
        Some((id, connection))
    }

    /// Removes a connection.
    pub fn remove(&mut self, id: ConnId) -> Option<C> {
        self.get_mut(id)?;
        Some(self.slab.remove(id.index()).1)
    }

    /// Returns all connections.
    pub fn iter(&self) -> impl Iterator<Item = (ConnId, &C)> {
        self.slab.iter().map(|(index, (generation, connection))| {
            (ConnId::from_parts(index as u32, *generation), connection)
        })
    }

    /// Returns the number of connections.
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Returns `true` if there is no connection.
    pub fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_removed_connections_are_not_reused() {
        let mut connections = Connections::default();
        let next = connections.next_id();
        let first = connections.insert("first");
        assert_eq!(first, next);
        assert_eq!(connections.remove(first), Some("first"));
        assert_eq!(connections.remove(first), None);
        let second = connections.insert("second");
        assert_eq!(second.index(), first.index());
        assert_eq!(connections.get_mut(first), None);
        assert_eq!(connections.at(0), Some((second, &mut "second")));
        assert_eq!(connections.iter().count(), connections.len());
    }
}
