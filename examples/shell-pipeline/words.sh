#!/bin/sh
# The ten commonest words of the text on standard input: a pipeline of ordinary tools.
tr -cs '[:alpha:]' '\n' | tr '[:upper:]' '[:lower:]' | grep -v '^$' | sort | uniq -c | sort -k1,1nr -k2 | head -n 10
