#!/bin/bash
#SBATCH --ntasks=9
#SBATCH --cpus-per-task=8
#SBATCH --gpus-per-task=1
#SBATCH --time=04:00:00

# The first task is the driver, the others are workers. They find each other by Slurm's variables.
srun bash -c '
  if [ "$SLURM_PROCID" = 0 ]; then
    exec python -m tf_exla run --limit 60GB --devices all train.py
  else
    exec python -m tf_exla worker --network
  fi'
