#!/bin/sh
# Data diversification (Nguyen et al. 2020) on Multi30k, English to German: models of both directions translate the training
# text, and the students learn from the genuine and the translated pairs. The scores are in docs/results.md.
#
#   recipes/multi30k_diversified.sh DIR [OPTION …]
#
# DIR has the files of github.com/multi30k/dataset: train.en, train.de, val.en, …. Each OPTION is added to every training, such
# as trainer=gpu. An interrupted recipe continues with the same command: finished runs and translations are kept. Environment:
#
#   OUT      folder of the runs and the translated pairs (runs/multi30k_diversified)
#   SEEDS    seeds of the teachers of each direction and of the students (1 2 3)
#   STUDENT  transformer or rnn; teachers are transformers (transformer)
#   HEED     command that starts heed (heed)
set -eu
[ $# -gt 0 ] || { sed -n '2,/^set/{s/^# \{0,1\}//;/^set/d;p;}' "$0"; exit 2; }
. "$(dirname "$0")/common.sh"
out=${OUT:-runs/multi30k_diversified}
student=${STUDENT:-transformer}
transformer="experiment=multi30k_en_de model.d_model=256 model.num_heads=8 model.d_ff=1024 trainer.keep_last=4"

for seed in $seeds; do
    for direction in forward backward; do
        reverse=false
        [ $direction = forward ] || reverse=true
        train "$out/$direction-$seed" $transformer "data.root='$dir'" data.reverse=$reverse seed="$seed" test=false \
            batching.batch_tokens=3000 trainer.max_steps=2000 trainer.validate_every=100 "$@"
    done
done

(
    set -- --src "$dir/train.en" --tgt "$dir/train.de" --out "$out/pairs" --engine heed
    for seed in $seeds; do
        set -- "$@" --model "$out/forward-$seed" --reverse-model "$out/backward-$seed"
    done
    $heed synthesize "$@"
)

pairs="['$dir/train.en','$dir/train.de']"
number=0
for _ in $seeds $seeds; do # a file for each teacher
    number=$((number + 1))
    pairs="$pairs,'$out/pairs/$number.jsonl'"
done
tests=
for name in test_2016_flickr test_2017_flickr test_2017_mscoco; do
    [ ! -e "$dir/$name.en" ] || tests="$tests${tests:+,}$name: [['$dir/$name.en','$dir/$name.de']]"
done
case $student in
    rnn) prefix=rnn options="experiment=multi30k_en_de_rnn model.d_model=672 trainer.keep_last=4 trainer.max_steps=4100" ;;
    *) prefix=student options="$transformer trainer.max_steps=5700 trainer.validate_every=570" ;;
esac
for seed in $seeds; do
    train "$out/$prefix-$seed" $options data=files "data.train=[$pairs]" "data.valid=[['$dir/val.en','$dir/val.de']]" \
        "data.test={$tests}" data.src_lang=en data.tgt_lang=de seed="$seed" batching.batch_tokens=4500 "$@"
done

[ "$seeds" = "${seeds%% *}" ] || (
    set --
    for seed in $seeds; do
        set -- "$@" --model "$out/$prefix-$seed"
    done
    evaluate "$out/$prefix-ensemble.txt" "$@" --src "$dir/test_2016_flickr.en" --ref "$dir/test_2016_flickr.de"
)
