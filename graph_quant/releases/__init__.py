"""What differs between releases of torch_npu: schemas of operators, and the releases that were tested."""
