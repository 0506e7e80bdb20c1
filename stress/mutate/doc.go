// Package mutate breaks the library on purpose, one line or so at a time, and
// checks that a named test notices: what no test notices may as well not hold.
//
//	go run ./stress mutate [-run REGEXP] [-jobs N] [-timeout D] [-markdown FILE]
//
// The breaks are data: Table. Each is applied to a scratch copy of the checkout,
// the test is built and run there, and the copy is restored. Before that every
// test must pass without a break. A break whose old text is not exactly once in
// its file is stale, and an error; so is one that does not compile.
package mutate
