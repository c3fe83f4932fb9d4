// Package load reads and writes graph files: Matrix Market, SNAP edge lists, CSV, DIMACS .gr, METIS
// .graph, adjacency lists, and the .el and .wel of the GAP benchmark. Files may be compressed by
// gzip or bzip2, or by codecs that a program passes to [Register].
//
// [Open] detects the format by the name and the content of a file. The result, a [File], is a list
// of edges between vertices numbered from 0, for graph.Build. A File also contains the names of the
// vertices in the file.
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
// If an id of the first edge looks like a number, all ids must be numbers. Ids of edge lists may
// have gaps: vertices are numbered in the order of their ids. Strings are numbered in the order of
// their first occurrence. A linear.Map on the device maps ids of both kinds, batch by batch.
//
// # Headers
//
// If the first line of an edge list has two numbers, it may be an edge, or a header with the
// numbers of vertices and edges. It is an edge unless its second number is the number of lines that
// follow. Otherwise it is a header, with two exceptions. If no line follows, or a number of the
// header is also a vertex of other lines, the line may be an edge: the file is refused until an
// option decides. If the header has fewer vertices than the lines, the file is refused, too. But
// then the line is an edge if its second number is a vertex of other lines, or its first number is
// 0. The counts in a comment "# Nodes: 7115 Edges: 103689" are checked as well.
//
// The first line of an edge list or of CSV contains column names in three cases. First, if its ids
// are not numbers, but the ids of the second line are. Second, if only the second line has a
// weight, and the first line has a common name of a weight column. Third, if its ids are common
// column names. Common names in other places than the first two columns are an error, unless
// options select columns. Lines above the first line that begin with # or % are comments. In CSV
// with string ids, "#a,#b" is an error there.
//
// # Errors
//
// A line of an edge list or of CSV has two ids. Either all lines have a weight, or none has. The
// weight may be the only attribute in the form of networkx. Anything else is an error, unless
// options select columns. Both ends of a METIS edge must list it, with the same weight. Lines end
// with a line feed, or all with a carriage return.
//
// A file that violates its format returns an [Error] with the line, which wraps weft.ErrFormat. So
// does a file with counts that contradict its content. The reader allocates memory for the lines
// that it has read, not by the counts in a file. It needs memory for all edges and for one line. A
// line may be 1 MiB long. A line of METIS, which has all edges of a vertex, may be 1 GiB long.
package load
