"""Train a translation model: ``python train.py model=transformer``."""

import heed.launch

if __name__ == "__main__":
    heed.launch.main()
