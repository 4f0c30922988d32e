// Command hello stands for the plug-in in a test.
package main

func main() {}
