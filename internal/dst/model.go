package dst

// Model specifies which results the operations of a structure may return. It consists of states and
// of the effect of each operation on a state. Init, Step and Key define the model. The other fields
// make searches shorter.
type Model[S, O any] struct {
	// Init is the state at the beginning of a history.
	Init S
	// Step returns the states to which an operation may lead from s, given its results. An empty
	// list means that the operation cannot have returned its results in s. Step must not change s.
	// An operation may take effect in several steps, with steps of other operations between them.
	// Then Step returns the rest of the operation; nil means that it is done. The rest depends on
	// the operation alone. It must equal the operation if the same step would complete the
	// operation in another state.
	Step func(s S, op O) (next []S, rest *O)
	// Key returns a string that identifies a state. A fact is live if a remaining operation needs
	// it. States that differ only in facts that are not live may have the same key.
	Key func(s S, live func(fact any) bool) string
	// Partition returns the part to which an operation belongs, such as its key. Operations in
	// different parts are independent. If Partition is nil, a history has a single part.
	Partition func(op O) any
	// Format formats operations, one per line.
	Format func(ops []O) string

	// Hint returns facts about an operation that do not depend on a state. If Hint is nil, no
	// operation has hints.
	Hint func(op O) Hint
	// Has reports whether a fact holds in a state. It is required if hints contain facts.
	Has func(s S, fact any) bool
	// Size returns the number of facts in a state. If Size is nil, hints have no sizes.
	Size func(s S) int
	// Register means that each state has a single fact, which is the state itself.
	Register bool
}

// Hint holds the properties that an operation has in every state. Facts are comparable values; the
// model defines their meaning.
type Hint struct {
	// Pure means that the operation enables no other operations, except those that need the facts
	// that it provides.
	Pure bool
	// Requires lists the facts that the operation needs. Without them it cannot end, unless it also
	// provides them.
	Requires []any
	// Provides lists the facts that may hold after the operation without having held before it.
	Provides []any
	// Class is equal for operations that differ only in the facts that they provide, if only
	// operations that need these facts can distinguish them. In a register, the fact must always
	// hold after the operation. "" means that no other operation has the same class.
	Class string
	// MinDelta and MaxDelta are the limits of the change in size that the operation causes.
	MinDelta, MaxDelta int
	// Size is the size of every state after the operation's last step, or -1 if sizes differ.
	Size int
}

func (m *Model[S, O]) hint(op O) (h Hint) {
	if m.Hint != nil {
		h = m.Hint(op)
	}
	return h
}
