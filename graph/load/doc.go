// Package load reads graphs from files, and writes them: Matrix Market, SNAP edge lists, CSV,
// DIMACS .gr, METIS .graph, adjacency lists, and the .el and .wel of the GAP benchmark. Files may
// be compressed by gzip or bzip2, or by codecs that a program passes to [Register].
//
// [Open] detects the format by the name and the content of a file. The result, a [File], is a list
// of edges between vertices numbered from 0, for graph.Build, with the names of the vertices in the
// file.
//
//	format        ids of vertices       weights             direction
//	MatrixMarket  1 to n                integer, real       general: directed; symmetric: not
//	EdgeList      numbers or strings    third column, or    not specified
//	                                    networkx attribute
//	CSV           numbers or strings    a column            not specified
//	DIMACS        1 to n                integer             directed
//	METIS         1 to n                integer, by flag    undirected
//	EL, WEL       0 to n-1              none; third column  not specified
//	AdjList       numbers or strings    none                not specified
//
// # Vertices
//
// If an id of the first edge looks like a number, all ids must be numbers. Numbers of edge lists
// may be sparse: vertices are numbered in the order of their ids. Strings are numbered in the order
// of their appearance. Both go through a linear.Map on the device, batch by batch.
//
// # Headers
//
// If the first line of an edge list has two numbers, it may be an edge, or a header with the
// numbers of vertices and edges. It is a header if its second number is the number of lines that
// follow. It may be an edge all the same, if one of its numbers is a vertex of other lines or no
// line follows. Then the file is refused until an option decides. So is a file with fewer vertices
// in the header than in its lines. But if the second number is a vertex of other lines, or the
// first is 0, the line is an edge. Comments "# Nodes: 7115 Edges: 103689" are checked as well.
//
// The first line of edge lists and CSV contains names of columns in three cases. Its ids are no
// numbers, and those of the second line are. Or only the second line has a weight, and the first
// has a common name for weights. Or its ids are common names of columns. Common names in other
// places than the first two columns are an error, unless options select columns. Lines above the
// first one that begin with # or % are comments. In CSV with string ids, "#a,#b" is an error there.
//
// # Errors
//
// A line of an edge list or of CSV has two ids. Either all lines or none have a weight, or
// networkx's attributes with only a weight. Anything else is an error, unless options select
// columns. Both ends of a METIS edge must list it, with the same weight. Lines end with a line
// feed, or all with a carriage return.
//
// A file that violates its format, or with counts that contradict its content, is an [Error] with
// the line, which wraps weft.ErrFormat. The reader does not allocate memory by the counts of a
// file, but by the lines read. It needs memory for the edges and for one line. A line may be 1 MiB
// long; of METIS, where it has all edges of a vertex, 1 GiB.
package load
