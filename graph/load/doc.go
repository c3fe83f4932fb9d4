// Package load reads graphs from files, and writes them: Matrix Market, SNAP edge lists, CSV, DIMACS .gr, METIS .graph,
// adjacency lists, and the .el and .wel of the GAP benchmark, any of them compressed by gzip or bzip2, or by what else a program has given to [Register].
//
// [Open] finds the format by the name and the content of a file. What comes of it, a [File], is a list of edges between
// vertices that are numbered from 0, for graph.Build, and the names that vertices have in the file.
//
//	format        ids of vertices       weights             direction
//	MatrixMarket  1 to n                integer, real       general: directed; symmetric: not
//	EdgeList      numbers or strings    third column, or    not said
//	                                    networkx attribute
//	CSV           numbers or strings    a column            not said
//	DIMACS        1 to n                integer             directed
//	METIS         1 to n                integer, by flag    undirected
//	EL, WEL       0 to n-1              none; third column  not said
//	AdjList       numbers or strings    none                not said
//
// # Vertices
//
// Ids are numbers where one of the first edge looks like a number: then all have to be. Numbers of edge lists may be sparse: vertices are numbered in the order of their ids. Strings are numbered in the order in which
// they come. Both go through a linear.Map on the device, batch by batch.
//
// # Headers
//
// The first line of an edge list that has two numbers may be an edge, or say how many vertices and edges there are. It is
// such a header if its second number is that of the lines that follow. If it may be an edge all the same, since one of its
// numbers is a vertex of other lines or no line follows, the file is refused until an option decides. So is a file with
// fewer vertices in the header than in its lines; but if the second number is a vertex of other lines, or the first is 0,
// the line is an edge. Comments "# Nodes: 7115 Edges: 103689" are checked as well.
//
// Of edge lists and CSV the first line is names of columns if its ids are no numbers and those of the second line are, if
// only the second line has a weight and the first has a usual name of weights, or if its ids are usual names of columns.
// Usual names in other places than the first two columns are an error, unless options choose columns. Lines above the first
// one that begin with # or % are comments. In CSV whose ids are strings, "#a,#b" is an error there.
//
// # Errors
//
// A line of an edge list or of CSV has two ids, and in all lines or in none a weight, or networkx's attributes with a weight
// alone. What else it has is an error, unless options choose columns. Both ends of a METIS edge have to list it, with one weight.
// Lines end with a line feed, or all with a carriage return.
//
// A file that breaks its format, or whose counts do not agree with what it holds, is an [Error] with the line, which wraps
// weft.ErrFormat. No count of a file is believed before there are as many lines: memory is that of the
// edges, and of one line, which may be 1 MiB long (of METIS, where it is all of a vertex, 1 GiB).
package load
