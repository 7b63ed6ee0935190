"""What a log says went wrong: the error that matters, its cause and its mend.

reading     a file or a stream as blocks of text, in bounded memory
lines       what programs put before and around a line, taken off
finding     known messages in those blocks
ranking     which of them is the cause
machine     what is known of the machine
particulars what a message says of versions and devices, and the commands that follow from it
explaining  all of it, in one call
"""
