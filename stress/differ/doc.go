// Package differ looks for scripts on which two engines decide differently.
//
// A script is written command by command while the sequential model of package
// model runs it, so that the writer knows what waits and what is booked: phases
// that fill the queue alternate with phases that drain it, that mix, and that
// change the pool. Then every engine runs the script, and each command must give
// the same output, line by line.
//
// Choices come from pgregory.net/rapid, which also shrinks a failing script.
// Reduce then takes out commands, input lines and arguments as long as the
// engines still differ; what is left is a script for the runner, with the model's
// output as the expectation.
//
// The package stands on floor 3.
package differ
