package kernelgen

// knownTypes are the Go types of structs in weft's headers that users' kernels take, such as a pool
// to allocate from or a view of a structure.
var knownTypes = map[string]string{
	"weft::Allocator":           weftPath + "/alloc.Ref",
	"weft::btree::Ref":          weftPath + "/btree.Ref",
	"weft::btree::VersionedRef": weftPath + "/btree.VersionedRef",
	"weft::graph::Graph":        weftPath + "/graph.Ref",
	"weft::graph::Ref":          weftPath + "/graph.Ref",
	"weft::linear::Ref":         weftPath + "/linear.Ref",
	"weft::ordered::Ref":        weftPath + "/ordered.Ref",
	"weft::slab::Ref":           weftPath + "/slab.Ref",
	"weft::slab::MultiRef":      weftPath + "/slab.Ref",
}

// known returns the types that need no -type flag. Weft's own sources name all types.
func (o *options) known() map[string]string {
	if o.isWeft() {
		return nil
	}
	return knownTypes
}
