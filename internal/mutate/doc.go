// Package mutate breaks kernels at random to see whether tests notice. A
// mutant is the PTX of a structure with one change of one statement: a
// comparison turned round, an immediate one too large, a store left out, the
// scope of an atomic narrowed. [Of] lists all of a file, in an order that a
// seed decides; [Run] judges some of them by the trials of a structure:
// programs under random schedules ([Schedules]), and tests that run on a
// simulated GPU ([OnDevice]).
//
// # Verdicts
//
// A mutant is killed by the first trial that it fails. One that survives them
// all is judged again with a trap in place of its statement: if that survives,
// too, the trials never execute the statement. And where the change is that of
// one value, once more with a trap if the value is another than it should be:
// if that survives, the trials never bring the two apart.
//
// Some changes make no difference that anybody could see, and nobody can tell
// that in general. Every survivor therefore needs a row in the table of the
// structure, [Reasons], which says why it is none of the tests' business, or
// that it is. The target is that of all mutants that change what kernels do,
// 95 of 100 are killed.
//
// By default a test judges a few mutants that no row excuses.
//
// # Long runs
//
//	go test -c ./slab
//	./slab.test -test.run TestRandomMutants -sim.mutants=1000 -sim.mutant.log=slab.jsonl -test.timeout=0
//
// judges the first 1000 mutants of the default order on all cores and notes
// each verdict in a file, as a line of JSON. A run that is given a file which
// exists goes on where it ends. -sim.mutant.from=1000 begins behind the first
// 1000: runs on several machines share the work that way. -sim.mutant=7 is
// another order, and -sim.mutant.name=NAME judges one mutant and tells all
// about it.
package mutate
