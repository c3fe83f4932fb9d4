package dst

// A Model says what the operations of a kind of structure may return, as a
// state and what each operation does to it. Init, Step and Key make a model;
// what follows lets a search get by with few steps.
type Model[S, O any] struct {
	// Init is the state in which a history begins.
	Init S
	// Step lists the states to which an operation may lead from a state, given
	// what it returned. None: it can't have returned that there. It leaves s as
	// it is. An operation that takes effect in several steps, with those of
	// others between, comes with its rest; nil: it is done. The rest depends on
	// the operation alone, and is no other than the operation if that may also
	// end, in another state, without going on.
	Step func(s S, op O) (next []S, rest *O)
	// Key tells states apart. Those that differ only in facts that are not
	// live, since no operation left needs them, may share a key.
	Key func(s S, live func(fact any) bool) string
	// Partition names the part that an operation belongs to, such as its key.
	// Those of different parts have nothing to do with each other. nil: there
	// is one part.
	Partition func(op O) any
	// Tell describes operations, one a line.
	Tell func(ops []O) string

	// Hint says what is known of an operation whatever the state. nil: nothing.
	Hint func(op O) Hint
	// Has reports whether a fact holds in a state. Hints that have facts need
	// it.
	Has func(s S, fact any) bool
	// Size counts what a state holds, each fact as one. nil: hints say nothing
	// of sizes.
	Size func(s S) int
	// Register models have one fact per state, which is all of it.
	Register bool
}

// A Hint is what is known of an operation whatever the state. Facts are values
// that can be compared, whose meaning is the model's.
type Hint struct {
	// Pure operations permit nothing: left out of an order, they are missed by
	// none but those that need the facts they give.
	Pure bool
	// Needs are the facts that matter to the operation. Without them it can't
	// end, unless it gives them, too.
	Needs []any
	// Gives are the facts that it may make hold where they didn't.
	Gives []any
	// Class is the same for operations that differ in nothing but the facts
	// they give, and none but those that need these can tell which it was. In a
	// register, the fact holds after it in any case. "": it is like no other.
	Class string
	// Least and Most bound what the operation adds to the size.
	Least, Most int
	// Size is that of every state to which its last step leads, or -1.
	Size int
}

// hint is what is known of an operation.
func (m *Model[S, O]) hint(op O) (h Hint) {
	if m.Hint != nil {
		h = m.Hint(op)
	}
	return h
}
