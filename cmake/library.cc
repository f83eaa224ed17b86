// The library is made of the modules in src/; a target needs a source.
