"""The packages that V1 programs import: `PyDataProvider2` and `config_parser`."""
