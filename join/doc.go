// Package join finds the rows of one table that have the keys of another: an [Index] over
// the key columns of one side, duplicates and all, built once and looked up any number of times. What it
// returns are row numbers; the other columns stay where they are.
//
//	SQL                                             here
//	SELECT … FROM l JOIN r ON l.k = r.k             Inner
//	SELECT … FROM l LEFT JOIN r ON l.k = r.k        Left
//	SELECT … FROM l WHERE k IN (SELECT k FROM r)    Semi
//	SELECT … FROM l WHERE NOT EXISTS (…)            Anti
//	SELECT count(*) … GROUP BY l.k                  Count
//	SELECT count(DISTINCT k) FROM r                 Distinct
//
// r is the build side, whose columns [New] takes. Let that be the smaller one: the index is what
// takes memory.
//
// # Keys
//
// A key is a value of one column, or of several together. Columns of both sides must agree in number and
// types: an int32 never equals an int64, nor a signed number one without sign. A null matches nothing, as
// in SQL, unless Options.NullsMatch says otherwise. Of floats all NaN are equal, and -0 is equal
// to 0, as in package group; SQL and Go's == would have NaN equal nothing.
//
// # Order
//
// Results do not depend on the number of cores: pairs come in the order of the left rows, and for one
// left row in that of the right rows.
//
// # Cost
//
// An index over keys of 64 bits takes up to 20 bytes a row, of 32 bits 16, and 4 more where keys have duplicates; where the
// keys lie close together, as row numbers and ids do, 4 bytes a row and 4 for each number between the
// smallest and the largest. Building it takes 25 bytes a row at most. Looking up takes some 50 MiB
// beside that, whatever the number of rows and of pairs.
package join
