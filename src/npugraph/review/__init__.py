"""The review desk: facts of an audit are judged by people, and their answers are learned from."""
