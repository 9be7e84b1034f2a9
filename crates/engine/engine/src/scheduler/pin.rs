//! Pins: prompts whose blocks stay when their call has ended.

use tapri_kv::{CallId, PinError, PinLimits, PinsFull};

use crate::event::{FinishReason, GenerateError, Pin};
use crate::handle::Pins;
use crate::request::Scope;
use crate::sequence::Sequence;

use super::{Scheduler, plain};

impl Scheduler {
    /// What may be pinned: a share of all blocks, and of those that the call's scope may have.
    fn pin_limits(&self, share: Option<usize>) -> PinLimits {
        let blocks = self.cache.config().blocks.saturating_sub(1);
        let part = |blocks: usize| (self.config.pin_limit * blocks as f64) as usize;
        PinLimits { all: part(blocks), own: part(share.map_or(blocks, |share| share.min(blocks))) }
    }

    /// Refuses a pin that can't be, before anything is computed for it.
    pub(super) fn check_pin(&self, sequence: &Sequence) -> Result<(), GenerateError> {
        if !sequence.pin {
            return Ok(());
        }
        let block = self.config.block_size;
        let stores = !sequence.options.no_store && self.config.prefix_cache;
        if !stores || sequence.prompt_tokens < block {
            return Err(GenerateError::NothingToPin { block });
        }
        let limits = self.pin_limits(sequence.options.share);
        self.cache.check_pin(plain(&sequence.tokens), &sequence.keys, limits).map_err(full)
    }

    /// Pins the prompt of a call that ends, if it is to be and the call was not left.
    pub(super) fn pin(
        &mut self,
        sequence: &mut Sequence,
        finish: FinishReason,
    ) -> Result<Option<Pin>, GenerateError> {
        if !sequence.pin || finish == FinishReason::Cancelled {
            return Ok(None);
        }
        let limits = self.pin_limits(sequence.options.share);
        let now = self.now();
        let pin = self.cache.pin(sequence.id, limits, now).map_err(|error| match error {
            PinError::Full(reached) => full(reached),
            PinError::Nothing { block } => GenerateError::NothingToPin { block },
            other => GenerateError::Internal(other.to_string()),
        })?;
        sequence.pinned = true;
        Ok(Some(self.shown(&pin)))
    }

    /// What a scope has pinned, whatever the salts.
    pub(super) fn pins_of(&self, scope: &Scope) -> Pins {
        let root = self.root(scope);
        let block_bytes = self.store.layout().block_bytes() as u64;
        Pins {
            pins: self
                .cache
                .pins()
                .filter(|pin| pin.root == root)
                .map(|it| self.shown(&it))
                .collect(),
            limit_bytes: self.pin_limits(None).all as u64 * block_bytes,
        }
    }

    /// Takes a pin away, if it is the scope's own.
    pub(super) fn unpin(&mut self, scope: &Scope, id: u64) -> bool {
        let root = self.root(scope);
        let now = self.now();
        let own = self.cache.pins().any(|pin| pin.id == CallId(id) && pin.root == root);
        own && self.cache.unpin(CallId(id), now)
    }

    fn shown(&self, pin: &tapri_kv::Pin) -> Pin {
        let bytes = (pin.blocks * self.store.layout().block_bytes()) as u64;
        Pin { id: pin.id.0, tokens: pin.tokens, blocks: pin.blocks, bytes }
    }
}

fn full(reached: PinsFull) -> GenerateError {
    let PinsFull { needed, pinned, limit, of_owner } = reached;
    GenerateError::PinsFull { needed, pinned, limit, of_share: of_owner }
}
