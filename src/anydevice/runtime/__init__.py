"""The runtime library: devices handled rightly in programs that import anydevice. Its public face is `anydevice`."""
