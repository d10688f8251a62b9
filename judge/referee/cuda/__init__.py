"""The referee on a GPU: an arena of device memory, armed calls, looks by the copy engine. Needs cuda-bindings."""
