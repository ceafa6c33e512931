//! Groups that only ever grow together.

/// A partition of the numbers below some `n` into groups, each named by one of its members.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    parent: Vec<usize>,
    n_groups: usize,
}

impl Groups {
    /// Each number alone.
    pub(super) fn new(n: usize) -> Self {
        Self { parent: (0..n).collect(), n_groups: n }
    }

    /// How many groups there are.
    pub(super) fn len(&self) -> usize {
        self.n_groups
    }

    /// The name of a number's group.
    pub(super) fn find(&mut self, mut at: usize) -> usize {
        while self.parent[at] != at {
            self.parent[at] = self.parent[self.parent[at]];
            at = self.parent[at];
        }
        at
    }

    /// Makes one group of two, named as that of the smaller name; false when they were one.
    pub(super) fn unite(&mut self, a: usize, b: usize) -> bool {
        let (a, b) = (self.find(a), self.find(b));
        if a == b {
            return false;
        }
        self.parent[a.max(b)] = a.min(b);
        self.n_groups -= 1;
        true
    }
}
