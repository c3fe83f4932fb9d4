// Package intern gives byte strings, and rows of several columns, dense ids: 0, 1, 2, … in the order of
// their first appearance. It encodes columns as numbers, removes duplicates, and makes keys of
// any kind fit for what takes integers.
package intern
