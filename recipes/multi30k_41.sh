#!/bin/sh
# Minutes to 41 BLEU on Multi30k, English to German, lower-cased: from the text to the trained model, then the test set. It
# trains one seed after the other and prints the minutes and the BLEU of each, and the mean. The records are in
# docs/speedrun.md.
#
#   recipes/multi30k_41.sh DIR [OPTION …]
#
# DIR has the files of github.com/multi30k/dataset: train.en, train.de, val.en, …. Each OPTION is added to every training, such
# as trainer=gpu. An interrupted recipe continues with the same command: finished runs and scores are kept, and the minutes
# include the interruption. Environment:
#
#   EXPERIMENT  multi30k_quick or multi30k_quick_rnn (multi30k_quick)
#   OUT         folder of the runs and the scores (runs/EXPERIMENT)
#   SEEDS       seeds of the runs (1 2 3)
#   HEED        command that starts heed (heed)
set -eu
[ $# -gt 0 ] || { sed -n '2,/^set/{s/^# \{0,1\}//;/^set/d;p;}' "$0"; exit 2; }
. "$(dirname "$0")/common.sh"
experiment=${EXPERIMENT:-multi30k_quick}
out=${OUT:-runs/$experiment}
export OMP_NUM_THREADS=1 # one core
mkdir -p "$out"

for seed in $seeds; do
    run="$out/seed-$seed"
    [ -e "$run" ] || { rm -f "$run".*; date +%s > "$run.start"; }
    train "$run" experiment="$experiment" "data.root='$dir'" seed="$seed" test=false "$@"
    [ -e "$run.seconds" ] || echo $(($(date +%s) - $(cat "$run.start"))) > "$run.seconds"
    evaluate "$run.txt" "$run" --src "$dir/test_2016_flickr.en" --ref "$dir/test_2016_flickr.de" --lowercase --metrics bleu
    evaluate "$run.cased.txt" "$run" --src "$dir/test_2016_flickr.en" --ref "$dir/test_2016_flickr.de"
done

for seed in $seeds; do
    echo "$seed $(cat "$out/seed-$seed.seconds") $(sed -n 's/^BLEU  *\([0-9.]*\).*/\1/p' "$out/seed-$seed.txt")"
done | awk '
    { printf "seed %s: %.1f minutes, BLEU %s\n", $1, $2 / 60, $3; minutes += $2 / 60; bleu += $3 }
    END { printf "mean: %.1f minutes, BLEU %.2f\n", minutes / NR, bleu / NR }'
