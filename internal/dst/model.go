package dst

// A Model says what the operations of a kind of structure may return, as a
// state and what each operation does to it. Init, Step and Key make a model;
// what follows them lets a search get by with few steps.
type Model[S, O any] struct {
	// Init is the state in which a history begins.
	Init S
	// Step lists what an operation may lead to in a state, given what it
	// returned. None: it can't have returned that there. It leaves s as it is.
	Step func(s S, op O) []Outcome[S, O]
	// Key tells states apart. Those that differ only in facts that are not
	// live, since no operation that is left needs them, may share a key.
	Key func(s S, live func(fact any) bool) string
	// Partition splits operations by index into parts that have nothing to do
	// with each other, such as those on different keys. nil: there is one part.
	Partition func(ops []O) [][]int
	// Tell describes operations, one a line.
	Tell func(ops []O) string

	// Hint says what is known of an operation in all states. nil: nothing.
	Hint func(op O) Hint
	// Has reports whether a fact holds in a state. Models that hint at facts
	// need it.
	Has func(s S, fact any) bool
	// Excludes reports that two facts hold in no state together. nil: unknown.
	Excludes func(a, b any) bool
	// Size counts what a state holds. nil: hints say nothing of sizes.
	Size func(s S) int
	// Register models have one fact per state, which is all of it.
	Register bool
}

// An Outcome is one of the things that an operation may lead to.
type Outcome[S, O any] struct {
	State S
	// Left is what the operation still has to do if it takes effect in several
	// steps, with those of others between; nil: it is done. It depends on the
	// operation alone, and is the operation itself if that could also have
	// been done.
	Left *O
}

// A Hint is what is known of an operation whatever the state. Facts are values
// that can be compared, whose meaning is the model's.
type Hint struct {
	// Pure operations change nothing: what they leave is the state or, if that
	// stands for several, those in which they may have returned what they did.
	Pure bool
	// Needs are facts without which the operation can't end.
	Needs []any
	// Gives are facts that it may make hold where they didn't.
	Gives []any
	// Class is the same for operations that differ in nothing but the facts
	// they give, which nobody can tell apart but operations that need them.
	// Wherever such an operation is possible, these hold after it. "": it is
	// like no other.
	Class string
	// Least and Most bound what the operation adds to the size.
	Least, Most int
	// Size is the size in which alone it is possible, or -1.
	Size int
}
