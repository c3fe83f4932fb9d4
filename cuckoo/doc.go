// Package cuckoo is a bucketized cuckoo hash table: a [Map] and a [Set] that take
// batches of keys, on every core of a CPU or on a GPU.
package cuckoo
