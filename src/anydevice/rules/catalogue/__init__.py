"""The rules, one file per family. Codes: `AD`, the family's letter in the catalogue, two digits."""
