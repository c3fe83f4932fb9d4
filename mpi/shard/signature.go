package shard

import (
	"fmt"

	"github.com/weftgo/weft/column"
)

// method is a method of a structure, or a function of this package.
type method uint8

const (
	methodGet method = iota
	methodContains
	methodPut
	methodPutNew
	methodGetOrPut
	methodAssign
	methodReduce
	methodDelete
	methodAdd
	methodLen
	methodClear
	methodSave
	methodLoad
	methodCheck
	methodSync
	methodGroup
	methodJoin
	methodRebalance
	methodRange
	methodRangeBackward
	methodCount
	methodDeleteRange
	methodRank
	methodSelect
	methodSuccessor
	methodPredecessor
	methodMin
	methodMax
	methodInsert
	methodHas
	methodDegree
	methodRows
	methodVertices
	methodPageRank
	methodBuild
)

var methods = [...]string{
	"Get", "Contains", "Put", "PutNew", "GetOrPut", "Assign", "Reduce", "Delete", "Add", "Len",
	"Clear", "Save", "Load", "Check", "Sync", "Group", "Join", "Rebalance", "Range", "RangeBackward",
	"Count", "DeleteRange", "Rank", "Select", "Successor", "Predecessor", "Min", "Max", "Insert",
	"Has", "Degree", "Rows", "Vertices", "PageRank", "Build",
}

func (m method) String() string {
	if int(m) < len(methods) {
		return methods[m]
	}
	return fmt.Sprintf("method(%d)", uint8(m))
}

// signature identifies a call. All ranks must make calls with the same signatures in the same
// order:
//
//	bits 0 to 6    method
//	bit 7          the batch is in device memory
//	bits 8 to 15   reduction of Reduce, or kind of Join
//	bits 16 to 23  column.Type of the keys
//	bits 24 to 31  column.Type of the values; 0 for sets
//	bits 32 to 63  number of the structure; 0 for functions
type signature uint64

func sign(m method, arg uint8, keys, vals column.Type, structure uint32) signature {
	return signature(m) | signature(arg)<<8 | signature(keys)<<16 | signature(vals)<<24 |
		signature(structure)<<32
}

// signOn marks a batch in device memory.
const signOn signature = 1 << 7

func (s signature) method() method { return method(s &^ signOn & 0xff) }

// String describes a call for errors.
func (s signature) String() string {
	keys, vals, structure := column.Type(s>>16), column.Type(s>>24), s>>32
	text := s.method().String()
	if s&signOn != 0 {
		text += "On"
	}
	if arg := uint8(s >> 8); arg != 0 {
		text += fmt.Sprintf("(%d)", arg)
	}
	if structure == 0 {
		return text
	}
	if text += fmt.Sprintf(" of structure %d, keys %v", structure, keys); vals != column.None {
		text += fmt.Sprintf(" and values %v", vals)
	}
	return text
}
