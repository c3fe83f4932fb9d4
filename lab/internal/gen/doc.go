// Package gen generates graphs for tests and measurements: R-MAT, Kronecker graphs of any
// initiator, random geometric graphs, Delaunay triangulations, roads, and unions of cliques.
//
// All random numbers are functions of a seed and a counter, computed with integers. A graph is
// therefore the same on any machine and any number of cores. The functions return lists of edges,
// from which graph.Build makes graphs. The lists of RMAT, Kronecker and Cliques contain repeated
// edges; those of RMAT and Kronecker also contain self loops.
//
// With the parameters in the last column, degrees resemble those of graphs in articles (Awad's
// thesis "Fully Concurrent GPU Data Structures", 2022, table 5.1). Results on such graphs are
// results on generated graphs, not on the graphs of the articles.
//
//	generator   like                             parameters
//	RMAT        soc-LiveJournal, soc-orkut       the default; 17, 71 arcs a vertex
//	Kronecker   soc-orkut                        an initiator of three rows: .3 .12 .1, .12 .1 .06, .1 .06 .04; 71.6 arcs a vertex
//	Geometric   rgg_n_2_20, rgg_n_2_24           the default radius: 13.1, 15.8 arcs a vertex
//	Delaunay    delaunay_n20, delaunay_n23       6 arcs a vertex
//	Roads       luxembourg, germany, road_usa    Subdivisions 6.9, 4, 0.96: 1.044, 1.071, 1.205 edges a vertex
//	Cliques     coAuthorsDBLP, hollywood-2009    sizes 2 to 10, degree 6.4; 10 to 100, 98.9
package gen
