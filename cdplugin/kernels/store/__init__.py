"""The store of hash-consed values: header, growth, work counter, hash probe."""
