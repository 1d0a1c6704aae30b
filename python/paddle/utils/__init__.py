"""Programs and functions around V1 trainings, under the names of the original."""
