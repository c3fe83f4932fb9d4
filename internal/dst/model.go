package dst

// A Model specifies which results the operations of a kind of structure may return, by a state and
// the effect of each operation on it. Init, Step and Key define the model. The other fields reduce
// the steps of a search.
type Model[S, O any] struct {
	// Init is the state in which a history begins.
	Init S
	// Step lists the states to which an operation may lead from s, given its results. An empty list
	// means that it cannot have returned them in s. Step leaves s unchanged. An operation that
	// takes effect in several steps, with steps of others between, comes with its rest; nil means
	// done. The rest depends on the operation alone. It equals the operation if that may also end,
	// in another state, without continuing.
	Step func(s S, op O) (next []S, rest *O)
	// Key distinguishes states. States that differ only in facts that are not live, because no
	// remaining operation needs them, may share a key.
	Key func(s S, live func(fact any) bool) string
	// Partition names the part of an operation, such as its key. Operations of different parts are
	// independent. nil means a single part.
	Partition func(op O) any
	// Format formats operations, one per line.
	Format func(ops []O) string

	// Hint returns state-independent facts about an operation. nil means no hints.
	Hint func(op O) Hint
	// Has reports whether a fact holds in a state. It is required if hints have facts.
	Has func(s S, fact any) bool
	// Size counts the facts in a state. nil means that hints have no sizes.
	Size func(s S) int
	// Register models have one fact per state, which is the whole state.
	Register bool
}

// A Hint has what is known of an operation in any state. Facts are comparable values with a meaning
// that the model defines.
type Hint struct {
	// Pure operations enable no others, except those that need the facts they provide.
	Pure bool
	// Requires are the facts that the operation depends on. Without them it cannot end, unless it
	// provides them, too.
	Requires []any
	// Provides are the facts that may hold after the operation and not before.
	Provides []any
	// Class is equal for operations that differ only in the facts they provide, if only operations
	// that need these can distinguish them. In a register, the fact holds after the operation in
	// any case. "" means that no other is alike.
	Class string
	// MinDelta and MaxDelta bound the operation's change of the size.
	MinDelta, MaxDelta int
	// Size is the size of every state after its last step, or -1.
	Size int
}

// hint returns the hint of an operation.
func (m *Model[S, O]) hint(op O) (h Hint) {
	if m.Hint != nil {
		h = m.Hint(op)
	}
	return h
}
